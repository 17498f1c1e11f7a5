"""Sees most of the arithmetic of a step done in fp32, without tensor cores."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Evidence, Fix
from preflight.check.observed.products import share, total
from preflight.check.observed.run import Run, seen
from preflight.check.rule import Example
from preflight.check.rules.efficiency.matrix_products_in_full_fp32 import RULE
from preflight.vocabulary.finding import Finding

SETTLES = True

_NET = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4096, 2048, device="cuda")
"""
_LOOP = """
for _ in range(4):
    optimizer.zero_grad()
    loss = step()
    loss.backward()
    optimizer.step()
"""

BAD = (
    _NET + "def step():\n    return model(x).sum()\n" + _LOOP,
    _NET
    + "def step():\n    with torch.autocast('cuda', torch.bfloat16, enabled=False):\n        return model(x).sum()\n"
    + _LOOP,
    _NET
    + "def step():\n    y = model(x)\n    with torch.autocast('cuda', torch.bfloat16):\n        return y.sum()\n"
    + _LOOP,
)

GOOD = (
    _NET + "torch.backends.cuda.matmul.allow_tf32 = True\ndef step():\n    return model(x).sum()\n" + _LOOP,
    _NET + "def step():\n    with torch.autocast('cuda', torch.bfloat16):\n        return model(x).sum()\n" + _LOOP,
    Example(_NET + "def step():\n    return model(x).sum()\n" + _LOOP, gpu="v100"),
)

_MOST, _LEAST = 0.5, 1e9


def observe(run: Run) -> Iterator[Finding]:
    """Find steps whose products run in fp32 on a GPU that has something faster."""
    gpu = run.context.gpu
    backwards = run.seen("backward")
    if gpu is None or "tf32" not in gpu.peak_flops or not backwards or total(run) < _LEAST:
        return
    part = share(run, lambda kind: kind.dtype == "float32")
    if part < _MOST:
        return
    ratio = gpu.peak_flops["tf32"] / gpu.peak_flops["fp32"]
    yield run.finding(
        RULE,
        backwards[0].line,
        f"{part:.0%} of the arithmetic of a step runs in full fp32, without tensor cores: at most 1/{ratio:.1f} of the rate "
        f"that TF32 has on {gpu.title}",
        evidence=[
            seen("share of the step's FLOP in fp32", round(part, 3)),
            seen("FLOP of a step", total(run)),
            Evidence("TF32 against fp32", round(ratio, 1), "times", "published"),
        ],
        fix=Fix(
            title='call torch.set_float32_matmul_precision("high")',
            instruction='call torch.set_float32_matmul_precision("high") at the start, or train under autocast in bf16',
            expected="matrix products use tensor cores, with 10 bits of mantissa in the inputs (TF32)",
        ),
        severity="warning",
        confidence="certain",
    )
