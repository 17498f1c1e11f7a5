"""Sees whether a seed was set by the script or by what it calls."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.reproducibility.no_seed import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True
ALONE = False

_BODY = """
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
"""

BAD = (
    "import torch\n" + _BODY,
    "import torch\ndef seed(value=None):\n    if value is not None:\n        torch.default_generator\nseed()\n" + _BODY,
    "import argparse, torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--seed', type=int)\n"
    "args = parser.parse_args()\n" + _BODY,
)

GOOD = ("import torch\ngetattr(torch, 'manual_' + 'seed')(3)\n" + _BODY,)


def observe(run: Run) -> Iterator[Finding]:
    """Find runs in which no seed was set."""
    if run.seen("seed") or not run.complete:
        return
    steps = run.seen("optimizer step")
    if steps:
        yield run.finding(
            RULE,
            steps[0].line,
            "no seed is set: weights, shuffling and dropout differ in every run, and small gains cannot be told from luck",
            evidence=[seen("calls that set a seed", 0)],
            fix=Fix(
                title="set a seed before the model is built",
                instruction="call torch.manual_seed(seed) at the start",
                expected="two runs begin alike",
            ),
        )
