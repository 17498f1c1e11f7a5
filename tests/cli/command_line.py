"""Scripts that the tests of the command line check, and how they call it."""

from __future__ import annotations

from preflight.cli.main import main

NEVER_ZEROED = """\
import torch

model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    loss = model(torch.randn(8, 16)).sum()
    loss.backward()
    optimizer.step()
"""
HEALTHY = NEVER_ZEROED.replace("    loss = ", "    optimizer.zero_grad()\n    loss = ")
NO_TRAINING = "import torch\n\nprint(torch.zeros(3))\n"
LIBRARY = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"


def run(*arguments: object) -> int:
    """Call the command as a shell does; the exit code."""
    return main([str(argument) for argument in arguments])
