"""A Python loop goes over the batch or the time inside forward.

## What it does
Looks in `forward` for loops over a dimension of a tensor (`for i in range(x.size(0))`, `for row in x`) whose passes call layers or tensor operations and do not build on each other.

## Why
Each pass launches its own small kernels: a loop over a batch of 64 with 5 operations makes 320 launches where 5 would do, and 320 more backwards.
A kernel over one item is over before Python has launched the next, so the GPU waits for Python.

## Fix
Apply the operation to the whole tensor, with `torch.vmap` or a reshape where it expects one item.

## When to ignore
When the items have different shapes, or the tensor has very few of them.

## References
- PyTorch documentation, "Performance Tuning Guide"; `torch.vmap`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, provenance
from preflight.source.values import Func, Known, Obj, Unknown, Value, options_of, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="python-loop-in-forward",
    code="EFF007",
    severity="info",
    confidence="likely",
    needs=("training_loop", "forward"),
    layer="D",
    tags=("performance",),
)

_NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.cell = nn.GRUCell(8, 8)
    def forward(self, x):
%s
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    _NET
    % """
        rows = []
        for i in range(x.size(0)):
            rows.append(self.layer(x[i]))
        return torch.stack(rows)
""",
    _NET
    % """
        batch, time, width = x.shape
        return self.steps(x, time)
    def steps(self, x, time):
        found = []
        for t in range(time):
            found += [torch.relu(self.layer(x[:, t]))]
        return torch.stack(found, 1)
""",
    _NET
    % """
        out = [self.layer(row) for row in x.unbind(0)]
        return torch.stack(out)
""",
    _NET
    % """
        rows = []
        for i in range(0, x.shape[0]):
            rows.append(self.layer(x[i]))
        return torch.stack(rows)
""",
)
GOOD = (
    _NET
    % """
        h = torch.zeros(x.size(0), 8)
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        return h
""",
    _NET
    % """
        for layer in [self.layer, self.layer]:
            x = layer(x)
        for k in range(3):
            x = x + self.layer(x)
        return x
""",
    _NET
    % """
        return torch.cat([self.layer(piece) for piece in x.split(128, dim=1)], 1)
""",
    _NET
    % """
        if not self.training:
            for i in range(len(x)):
                self.show(self.layer(x[i]))
        return self.layer(x)
""",
)

# Not split and chunk: pieces of more than one item are there to save memory.
_TENSOR = (".size", ".unbind", "torch.unbind", "builtins.len", "len")
_WRAPS = ("builtins.range", "builtins.enumerate", "builtins.zip", "builtins.reversed")


def check(context: Context) -> Iterator[Finding]:
    """Find loops over a tensor whose passes are independent."""
    seen: set[int] = set()
    for event in context.trace.events:
        if event.context.shadow or not _computes(event):
            continue
        frame = next((f for f in event.context.frames() if f.kind == "loop"), None)
        if frame is None or id(frame.node) in seen or frame.value is None:
            continue
        forward = _forward_around(context, frame)
        if forward is None or not _each_pass(event, frame):
            continue
        seen.add(id(frame.node))
        source = _over_tensor(frame.value)
        if source is None or not _training(context, frame) or _carries(context, frame, event):
            continue
        operations = [e for e in context.trace.events if e.context.within(frame) and _computes(e)]
        yield _finding(context, frame, event, len(operations), forward)


def _computes(event: Event) -> bool:
    """Whether a call launches kernels: a layer, or an operation of torch."""
    if event.name == "()":
        return is_module(event.receiver) and isinstance(settle(event.receiver or Known(None)), Obj)
    return event.name.startswith(("torch.nn.functional.", "torch.matmul", "torch.relu", "torch.einsum", "torch.bmm"))


def _forward_around(context: Context, frame: Frame) -> str | None:
    """The ``forward`` that a loop runs in, on the way to the training loop."""
    for outer in frame.frames():
        if outer.kind == "call" and isinstance(outer.value, Func):
            name = outer.value.qualname
            if name.endswith(".forward") and outer.value.owner is not None:
                return name
    return None


def _training(context: Context, frame: Frame) -> bool:
    return any(frame.within(loop.frame) for loop in context.reading.loops)


def _each_pass(event: Event, frame: Frame) -> bool:
    for inner in event.context.frames():
        if inner is frame:
            return True
        if inner.kind in ("if", "except"):
            return False
    return False


def _over_tensor(value: Value) -> Value | None:
    """The dimension that is gone through, where the loop is over one of a tensor's."""
    base = settle(value)
    for _ in range(4):
        if not isinstance(base, Obj) or base.name not in _WRAPS:
            break
        given = base.args
        if base.name == "builtins.range" and len(given) == 2 and plain(given[0]) == 0:
            given = given[1:]
        if not given or (base.name == "builtins.range" and len(given) != 1):
            return None
        base = settle(given[0])
        if isinstance(base, Obj) and base.name in _WRAPS:
            continue
        break
    if not isinstance(base, Obj):
        return None
    if base.name in _TENSOR:
        holder = base.receiver or (base.args[0] if base.args else None)
        return base if _is_tensor(holder) else None
    if base.kind == "item" and isinstance(settle(base.receiver or Known(None)), Obj):
        shape = settle(base.receiver or Known(None))
        if isinstance(shape, Obj) and (shape.name in ("shape", ".size")) and _is_tensor(shape.receiver):
            return base
    return None


def _is_tensor(value: Value | None) -> bool:
    """Whether a thing is computed by a layer or taken from a batch, and is not a container of the script."""
    for option in options_of(value, limit=3):
        if (
            isinstance(option, Obj)
            and not is_module(option)
            and option.kind in ("call", "item", "op")
            and option.cls is None
        ):
            return True
    return False


def _carries(context: Context, frame: Frame, event: Event) -> bool:
    """Whether a pass builds on the one before: a recurrent state, a running product."""
    for carry in context.trace.carried:
        if carry.frame is not frame:
            continue
        behind = list(provenance(carry.final, 300))
        if any(part is carry.mark for part in behind) and not isinstance(carry.mark, Known) and _heavy(behind):
            return True
    # An item that is written and read again, or a state inside of an object, is not seen as carried.
    inside = [e for e in context.trace.events if e.context.within(frame)]
    if any("Cell" in n for e in inside for n in _names(e)):
        return True
    return any(s.context.within(frame) for s in context.trace.stores)


def _heavy(behind: list[Value]) -> bool:
    return any(
        isinstance(p, Obj) and (p.name == "()" or p.name.startswith("torch.") or p.kind == "op") for p in behind
    ) or any(isinstance(p, Unknown) for p in behind)


def _names(event: Event) -> Iterator[str]:
    for option in options_of(event.receiver, limit=3):
        if isinstance(option, Obj):
            yield option.name if option.cls is None else option.cls.qualname


def _finding(context: Context, frame: Frame, event: Event, operations: int, forward: str) -> Finding:
    node = frame.node if isinstance(frame.node, ast.AST) else event.node
    script = frame.script or event.script
    return context.finding(
        RULE,
        (script, node),
        f"{forward} goes through a tensor item by item: each pass launches kernels of its own, though no pass needs the one before",
        evidence=[
            Evidence(
                "layers and operations in each pass", operations, None, "derived", f"{operations} x items launches"
            )
        ],
        related=[(event, "computed for one item at a time")],
        fix=Fix(
            title="compute all items at once",
            instruction="apply the layer to the whole tensor: it broadcasts over leading dimensions; use torch.vmap for functions of one item",
            expected=f"{operations} launches instead of {operations} per item",
        ),
    )
