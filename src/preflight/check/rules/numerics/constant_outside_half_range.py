"""A mask constant does not fit float16.

## What it does
Reports `masked_fill` with a number beyond ±65504 on scores that are float16: the result of a matrix product under float16 autocast, or an explicit `half()`.

## Why
The largest float16 number is 65504.
PyTorch refuses the constant: "value cannot be converted to type at::Half without overflow"; the run stops in the first step with mixed precision.

## Fix
Use `torch.finfo(scores.dtype).min`, or -1e4.

## When to ignore
When autocast is only ever used with bfloat16.

## References
- PyTorch documentation of torch.finfo; list of operations that autocast to float16
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.check.tensors import VIEWS, graph, is_method, operand, operation, option, origin
from preflight.source.trace import Context as Frame
from preflight.source.values import Known, Obj, Value, plain, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="constant-outside-half-range",
    code="NUM006",
    severity="error",
    confidence="likely",
    layer="D",
    tags=("numerics", "precision"),
)

BAD = (
    """
import torch, torch.nn as nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x, mask):
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / 8 ** 0.5
        return scores.masked_fill(mask == 0, -1e9).softmax(-1)
net = Attention().cuda()
for x, mask in loader:
    with torch.cuda.amp.autocast():
        net(x.cuda(), mask.cuda()).sum().backward()
""",
    """
import torch
from torch import autocast
def scores(q, k, mask):
    s = torch.matmul(q, k.transpose(-2, -1))
    return s.masked_fill_(mask, float("-1e20"))
for q, k, mask in loader:
    with autocast("cuda", dtype=torch.float16):
        scores(q, k, mask).softmax(-1)
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--fill", type=float, default=-1e10)
args = p.parse_args()
net = torch.nn.Linear(8, 8)
for x, mask in loader:
    torch.masked_fill(net(x).half(), mask, args.fill).softmax(-1).sum().backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
net = nn.Linear(8, 8)
for x, mask in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        net(x).masked_fill(mask, -1e9).softmax(-1).sum().backward()
    with torch.autocast("cuda"):
        net(x).masked_fill(mask, -1e4).softmax(-1).sum().backward()
        net(x).float().masked_fill(mask, -1e9).softmax(-1).sum().backward()
        net(x).masked_fill(mask, float("-inf")).softmax(-1).sum().backward()
""",
    """
import torch, torch.nn as nn
net = nn.Linear(8, 8)
for x, mask in loader:
    with torch.autocast("cuda", enabled=False):
        net(x).masked_fill(mask, -1e9).softmax(-1).sum().backward()
    net(x).masked_fill(mask, -1e9).softmax(-1).sum().backward()
""",
)

LARGEST = 65504.0  # (2 - 2^-10) * 2^15
# Operations whose result autocast makes float16, as PyTorch lists them.
_HALF = frozenset(
    {"@", "matmul", "bmm", "mm", "einsum", "baddbmm", "nn.Linear", "linear", "nn.Conv1d", "nn.Conv2d", "addmm"}
)
_SCALING = frozenset({"*", "/", "+", "-"})
_FULL = VIEWS - {"float", "double", "to", "half", "type", "bfloat16", "type_as"}


def check(context: Context) -> Iterator[Finding]:
    """Look for constants beyond the range on what is float16."""
    for value in graph(context).made("masked_fill", "masked_fill_"):
        constant = option(value, 1, "value")
        number = plain(constant)
        if not isinstance(number, (int, float)) or not LARGEST < abs(number) < float("inf"):
            continue
        if not _is_half(operand(value), value.context):
            continue
        yield context.finding(
            RULE,
            value,
            f"{number:g} does not fit float16 (largest number 65504): masked_fill stops the run here",
            evidence=[
                Evidence("constant", number),
                Evidence("largest float16 number", LARGEST, arithmetic="(2 - 2^-10) * 2^15 = 65504"),
            ],
            fix=Fix(
                title="use the smallest number of the type",
                edits=edits(_edit(context, value, constant)),
                instruction="use torch.finfo(scores.dtype).min",
                expected="the mask works in every precision",
            ),
        )


def _is_half(value: Value | None, frame: Frame | None) -> bool:
    """Whether a value is float16, by a call of half or by autocast."""
    for _ in range(12):
        found = origin(value, _FULL)
        name = operation(found)
        if found is None:
            return False
        if name == "half":
            return True
        if name in _SCALING and found.args:
            others = [settle(a) for a in found.args]
            if not any(isinstance(a, Known) for a in others):
                return False
            value = next((a for a in found.args if not isinstance(settle(a), Known)), None)
            continue
        return name in _HALF and half_autocast(found.context or frame)
    return False


def half_autocast(frame: Frame | None) -> bool:
    """Whether a place is inside an enabled float16 autocast."""
    for entered in frame.withs() if frame is not None else []:
        manager = settle(entered)
        if not isinstance(manager, Obj) or manager.name not in ("torch.autocast", "torch.cuda.amp.autocast"):
            continue
        old = manager.name == "torch.cuda.amp.autocast"
        if plain(manager.argument(0 if old else 2, "enabled"), True) is not True:
            return False
        dtype = manager.argument(1, "dtype")
        if dtype is not None:
            return getattr(settle(dtype), "name", "") in ("torch.float16", "torch.half")
        device = manager.argument(0, "device_type")
        return old or (device is not None and str(plain(device, "")).startswith("cuda"))
    return False


def _edit(context: Context, value: Obj, constant: Value | None) -> Edit | None:
    """Replace the constant where it is written out and the scores are a plain name."""
    import ast

    node = value.site.node if value.site is not None else None
    settled = settle(constant) if constant is not None else None
    if not isinstance(node, ast.Call) or settled is None or settled.site is None or value.site is None:
        return None
    scores = node.func.value if is_method(value) and isinstance(node.func, ast.Attribute) else None
    written = [*node.args, *(k.value for k in node.keywords)]
    names = {a.asname or a.name for n in value.site.script.tree.body if isinstance(n, ast.Import) for a in n.names}
    target = next((w for w in written if w is settled.site.node or ast.dump(w) == ast.dump(settled.site.node)), None)
    if not isinstance(scores, ast.Name) or target is None or "torch" not in names:
        return None
    return context.replace((value.site.script, target), f"torch.finfo({scores.id}.dtype).min")
