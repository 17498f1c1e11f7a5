"""Training programs that the tests record, and the interpreter that runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src"

PLAIN = """\
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(160, 8)
for i in range(20):
    optimizer.zero_grad()
    loss = model(data[i * 8 : i * 8 + 8]).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(f"{i} {loss.item():.6f}")
"""
NEVER_CLEARED = PLAIN.replace("    optimizer.zero_grad()\n", "    if i < 12:\n        optimizer.zero_grad()\n")


def environment() -> dict[str, str]:
    """The environment in which the package of this checkout is found, and one thread does the work."""
    return {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def preflight(*arguments: object, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    program = "import sys; from preflight.cli.main import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=cwd, env=environment(), capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
