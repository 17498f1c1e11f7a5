"""Sees a training that ran without one operator on the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.run import Run, seen
from preflight.check.rules.efficiency.gpu_never_used import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""

BAD = (
    "import torch\nmodel = torch.nn.Linear(8, 2)\nx = torch.randn(4, 8)\n" + _LOOP,
    "import torch\ndevice = torch.device('cuda' if torch.cuda.device_count() > 64 else 'cpu')\n"
    "model = torch.nn.Linear(8, 2).to(device)\nx = torch.randn(4, 8, device=device)\n" + _LOOP,
    "import argparse, torch\nparser = argparse.ArgumentParser()\nparser.add_argument('--gpu', action='store_true')\n"
    "args = parser.parse_args()\nmodel, x = torch.nn.Linear(8, 2), torch.randn(4, 8)\nif args.gpu:\n    model.cuda()\n"
    + _LOOP,
)

GOOD = ("import torch\nmodel = torch.nn.Linear(8, 2).cuda()\nx = torch.randn(4, 8, device='cuda')\n" + _LOOP,)


def observe(run: Run) -> Iterator[Finding]:
    """Find trainings on the CPU."""
    steps = run.seen("optimizer step")
    if not run.complete or run.profile.operators or not steps:
        return
    yield run.finding(
        RULE,
        run.optimizers[0].line if run.optimizers else steps[0].line,
        f"{run.profile.steps} optimizer steps ran without one operator on the GPU: the training stays on the CPU",
        evidence=[seen("operators on the GPU", 0), seen("optimizer steps", run.profile.steps)],
        fix=Fix(
            title="move the model and the batches to the GPU",
            instruction='model.to("cuda") and batch.to("cuda"), or the option of the script that does it',
            expected="the training runs on the GPU",
        ),
        confidence="certain",
    )
