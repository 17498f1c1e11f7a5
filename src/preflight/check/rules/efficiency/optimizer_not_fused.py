"""The optimizer is not fused.

## What it does
Notes an Adam, AdamW, SGD or Adagrad on the GPU without `fused=True`.

## Why
By default PyTorch updates lists of tensors at once (foreach), which takes about ten kernels and a temporary as large as the parameters.
The fused kernels read and write each state once and need no temporary.

## Fix
Pass `fused=True`.

## When to ignore
When the optimizer is differentiated, captured, or works on parameters of several devices or types that the fused kernels do not take.

## References
- PyTorch documentation, `torch.optim`: "Default algorithms": for-loop, foreach, and fused
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.steps import uses_gpu
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-not-fused",
    code="EFF022",
    severity="info",
    confidence="likely",
    needs=("optimizer",),
    layer="S",
    persona="pedantic",
    tags=("optimizer",),
)

_HEAD = "import torch\nfrom torch import nn\nmodel = nn.Linear(10, 2).cuda()\n"
BAD = (
    _HEAD + "o = torch.optim.AdamW(model.parameters(), lr=0.1)\n",
    _HEAD
    + "from torch.optim import Adam as Opt\ndef make(net):\n    return Opt(net.parameters(), lr=1e-3, foreach=True)\nmake(model)\n",
    _HEAD + "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--fused', action='store_true')\n"
    "args = parser.parse_args()\no = torch.optim.SGD(model.parameters(), lr=0.1, fused=args.fused)\n",
)
GOOD = (
    _HEAD
    + "o = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)\np = torch.optim.LBFGS(model.parameters())\n",
    "import torch\nmodel = torch.nn.Linear(10, 2)\no = torch.optim.AdamW(model.parameters(), lr=0.1)\n",
)

_FUSED = ("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD", "torch.optim.Adagrad")


def check(context: Context) -> Iterator[Finding]:
    """Note optimizers that have a fused kernel and do not use it."""
    if not uses_gpu(context):
        return
    for event in context.trace.calls(*_FUSED):
        optimizer = event.result
        if (
            event.context.shadow
            or getattr(optimizer, "open_args", False)
            or getattr(optimizer, "cls", None) is not None
        ):
            continue
        fused = context.value(event.kwargs.get("fused"), False)
        if fused is not False or "differentiable" in event.kwargs or "capturable" in event.kwargs:
            continue
        edit = context.add_argument(event, "fused=True") if not {"fused", "foreach"} & set(event.kwargs) else None
        yield context.finding(
            RULE,
            event,
            f"{event.name.rpartition('.')[2]} runs without its fused kernel: the states are read and written several times per step",
            evidence=[Evidence("fused", False)],
            fix=Fix(
                title="pass fused=True",
                edits=edits(edit) if edit is not None else (),
                instruction="pass fused=True to the optimizer",
                expected="one pass over parameters, gradients and states per step, without a temporary",
            ),
        )
