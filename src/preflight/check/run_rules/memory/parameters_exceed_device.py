"""Sees a model that has no room on the GPU while it is built or moved there."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.memory import overflow_seen
from preflight.check.observed.run import Run
from preflight.check.rule import Example
from preflight.check.rules.memory.parameters_exceed_device import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(2, 32768, device="cuda")).sum().backward()
    optimizer.step()
"""

BAD = (
    Example(
        "import torch\nwith torch.device('cuda'):\n"
        "    model = torch.nn.Sequential(*[torch.nn.Linear(32768, 32768, bias=False) for _ in range(5)])\n" + _LOOP,
        gpu="t4",
    ),
    Example(
        "import torch\nmodel = torch.nn.Sequential()\nfor _ in range(6):\n"
        "    model.append(torch.nn.Linear(32768, 32768, bias=False, device='cuda'))\n" + _LOOP,
        gpu="a10g",
    ),
    Example(
        "import torch\ndef build(depth):\n"
        "    return torch.nn.Sequential(*(torch.nn.Linear(32768, 32768, bias=False, device='meta') for _ in range(depth)))\n"
        "model = build(7).to_empty(device='cuda')\n" + _LOOP,
        gpu="rtx4090",
    ),
)

GOOD = (
    Example(
        "import torch\nwith torch.device('cuda'):\n"
        "    model = torch.nn.Sequential(*[torch.nn.Linear(32768, 32768, bias=False) for _ in range(2)])\n" + _LOOP,
        gpu="a10g",
    ),
)


def observe(run: Run) -> Iterator[Finding]:
    """Find a construction that had no room."""
    fix = Fix(
        title="hold less of the model on this GPU",
        instruction="load the weights in bf16, shard the model over several GPUs (FSDP, ZeRO 3), or take a smaller one",
        expected="the parameters leave room for gradients, states and activations",
    )
    yield from overflow_seen(run, RULE, "placing the model", fix, "init")
