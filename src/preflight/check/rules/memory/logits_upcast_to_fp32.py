"""The logits of a large vocabulary are turned to fp32 as a whole.

## What it does
Looks for `logits.float()` before a cross entropy, where the vocabulary of the layer that makes the logits is known to be large and the script computes in 16 bits.

## Why
The cast makes a second copy of batch x sequence x vocabulary numbers, of twice the size, and backward makes its gradient as well.
At 8 x 1,024 tokens and a vocabulary of 50,257 the logits take 0.8 GB in bf16; the cast adds 1.6 GB, and its gradient another 1.6 GB: often the largest tensors of the whole step.

## Fix
Leave the cast to the loss: cross entropy computes in fp32 inside under autocast; or compute the loss in chunks, or with a fused kernel.

## When to ignore
When the memory is there.

## References
- Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="logits-upcast-to-fp32",
    code="MEM022",
    severity="info",
    confidence="likely",
    needs=("training_loop", "forward"),
    layer="V",
    tags=("memory", "loss"),
)

_NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.body = nn.Linear(64, 64)
        self.head = nn.Linear(64, vocab, bias=False)
    def forward(self, x):
        return self.head(self.body(x))
"""
_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(x)
    loss = measure(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BAD = (
    _NET
    + "model = Net(50257)\ndef measure(out, y):\n    return nn.functional.cross_entropy(out.float().view(-1, 50257), y.view(-1))\n"
    + _LOOP,
    _NET
    + "criterion = nn.CrossEntropyLoss()\nmodel = Net(128256)\ndef measure(out, y):\n    out = out.to(torch.float32)\n"
    "    return criterion(out[:, :-1].flatten(0, 1), y)\n" + _LOOP,
    _NET + "import argparse\nfrom torch.nn.functional import cross_entropy as ce\nparser = argparse.ArgumentParser()\n"
    "parser.add_argument('--vocab', type=int, default=32000)\nmodel = Net(parser.parse_args().vocab)\n"
    "def measure(logits, y):\n    logits = logits.type(torch.float32)\n    return ce(logits.transpose(1, 2), y)\n"
    + _LOOP,
)
GOOD = (
    _NET
    + "model = Net(50257)\ndef measure(out, y):\n    return nn.functional.cross_entropy(out.view(-1, 50257), y.view(-1)).float()\n"
    + _LOOP,
    _NET + "model = Net(1000)\ndef measure(out, y):\n    return nn.functional.cross_entropy(out.float(), y)\n" + _LOOP,
    _NET
    + "model = Net(50257)\ndef measure(out, y):\n    return nn.functional.cross_entropy(out.float(), y)\n"
    + _LOOP.replace('torch.autocast("cuda", dtype=torch.bfloat16)', "torch.enable_grad()"),
)

_LARGE = 30_000
_LOSSES = ("torch.nn.functional.cross_entropy", "()")
_SHAPES = frozenset(
    (".view", ".reshape", ".flatten", ".transpose", ".permute", ".contiguous", ".squeeze", ".unsqueeze")
)


def check(context: Context) -> Iterator[Finding]:
    """Find casts to fp32 between a large output layer and a cross entropy."""
    if "16" not in context.run.precision:
        return  # what is fp32 already is not copied
    seen: set[int] = set()
    for event in context.trace.calls(*_LOSSES):
        if event.context.shadow or not event.args or context.reading.loop_of(event) is None:
            continue
        if (
            event.name == "()"
            and getattr(settle(event.receiver) if event.receiver else None, "name", "") != "torch.nn.CrossEntropyLoss"
        ):
            continue
        cast = _cast(event.args[0])
        size = _vocabulary(cast) if cast is not None else None
        if cast is None or size is None or size < _LARGE or id(cast) in seen:
            continue
        seen.add(id(cast))
        yield context.finding(
            RULE,
            cast,
            f"the logits over {size:,} words are copied to fp32 as a whole before the loss: 4 bytes x {size:,} per token, and as much again for the gradient",
            evidence=[
                Evidence("vocabulary", size),
                Evidence("copy per token", 4 * size, "bytes", "derived", f"4 x {size:,}"),
            ],
            related=[(event, "the loss")],
            fix=Fix(
                title="leave the cast to the loss",
                instruction="give the logits as they are under autocast, or compute the loss in chunks of tokens",
                expected=f"{8 * size / 1e6:.2f} MB less for each token of a batch (copy and gradient)",
            ),
        )


def _cast(value: Value) -> Obj | None:
    """The cast to fp32 that a loss is given, through changes of shape."""
    for _ in range(8):
        base = settle(value)
        if not isinstance(base, Obj) or base.receiver is None:
            return None
        if base.name == ".float" or (
            base.name in (".to", ".type") and any(_is_fp32(a) for a in (*base.args, *base.kwargs.values()))
        ):
            return base
        if base.name not in _SHAPES and base.kind != "item":
            return None
        value = base.receiver
    return None


def _is_fp32(value: Value) -> bool:
    return getattr(settle(value), "name", None) in ("torch.float32", "torch.float")


def _vocabulary(cast: Obj) -> int | None:
    """The number of outputs of the linear layer that made the logits."""
    for part in provenance(cast.receiver, 12):
        if isinstance(part, Obj) and part.name == "()" and part.receiver is not None:
            layer = settle(part.receiver)
            if isinstance(layer, Obj) and layer.name == "torch.nn.Linear":
                given = layer.argument(1, "out_features")
                size = settle(given) if given is not None else None
                return size.value if isinstance(size, Known) and isinstance(size.value, int) else None
    return None
