"""The result of a function without side effects is thrown away.

## What it does
Reports a statement that calls a function or method of tensors and does nothing with what it returns: `F.dropout(x)`, `x.masked_fill(m, v)`, `loss.detach()`, `tensor.to(device)` on a line of its own.

## Why
These return a new tensor and leave the old one as it is.
The dropout is never applied, the mask is never set, the tensor stays on the CPU.

## Fix
Assign the result, or use the in-place form where one is meant.

## When to ignore
Never; a call without effect can be deleted.

## References
- PyTorch documentation: methods that end in an underscore work in place, the others return a new tensor
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.tensors import graph, operation
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, options_of, plain, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="result-discarded", code="MOD008", severity="error", confidence="certain", layer="D", tags=("tensors",)
)

BAD = (
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        x = self.fc(x)
        F.dropout(x, 0.5, training=self.training)
        return x
net = Net()
""",
    """
import torch
def attend(q, k, mask):
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores.masked_fill(mask == 0, float("-inf"))
    return torch.softmax(scores, dim=-1)
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
args = p.parse_args()
class Loop:
    def noise(self):
        z = torch.randn(16, 100)
        z.to(args.device)
        return z
Loop().noise()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
import torch.nn.functional as F
model = nn.Linear(8, 2)
model.to("cuda")
model.cuda()
for x, y in loader:
    x.requires_grad_(True)
    F.relu(x, inplace=True)
    F.cross_entropy(model(x), y).backward()
""",
    """
import torch
def prepare(batch, device):
    batch.to(device)
    return batch
def dot(a, b, out):
    torch.clamp(a, 0, 1, out=out)
    return out
""",
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def forward(self, x):
        F.relu(x, True)
        F.dropout(x, 0.1, self.training, True)
        return x
Net()(x)
""",
)

# Never a method of anything but a tensor, and never with an effect.
_PURE_METHODS = frozenset({
    "masked_fill", "masked_scatter", "clamp", "detach", "unsqueeze", "contiguous", "softmax", "log_softmax", "sigmoid", "index_fill",
    "scatter_add", "index_add", "masked_select", "reshape", "permute",
})  # fmt: skip
# Methods that other things have too: only on what is known to be a tensor.
_TENSOR_METHODS = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "long", "view", "squeeze", "transpose", "t",
                             "flatten", "clone", "mean", "sum", "type"})  # fmt: skip
_FUNCTIONS = frozenset({"dropout", "dropout2d", "relu", "softmax", "log_softmax", "normalize", "pad", "gelu", "leaky_relu", "layer_norm",
                        "masked_fill", "clamp", "sigmoid", "tanh", "cat", "stack", "reshape", "flatten", "where"})  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Look for statements that are nothing but a call without effect."""
    for name, events in context.trace.by_name.items():
        tail = name.rpartition(".")[2]
        method = name.startswith(".") and tail in _PURE_METHODS | _TENSOR_METHODS
        function = tail in _FUNCTIONS and name in (f"torch.{tail}", f"torch.nn.functional.{tail}")
        if not method and not function:
            continue
        for event in events:
            if _has_effect(event) or (method and not _on_tensor(context, event, tail)):
                continue
            statement = context.statement(event.script, event.node)
            if not isinstance(statement, ast.Expr) or statement.value is not event.node:
                continue
            yield _report(context, event, tail)


# Where functions take ``inplace`` among their arguments.
_INPLACE = {"relu": 1, "leaky_relu": 2, "dropout": 3, "dropout2d": 3}


def _has_effect(event: Event) -> bool:
    inplace = event.argument(_INPLACE.get(event.name.rpartition(".")[2], -1), "inplace")
    return "out" in event.kwargs or (inplace is not None and plain(inplace) is not False) or event.context.shadow


def _on_tensor(context: Context, event: Event, tail: str) -> bool:
    """Whether the receiver is a tensor: made by an operation on tensors, or anything for a method only tensors have."""
    receiver = settle(event.receiver) if event.receiver is not None else None
    if not isinstance(receiver, Obj) or context.roles.of(receiver) is not None:
        return False
    if receiver.cls is not None:
        return False
    made = operation(receiver)
    if made is None or made.startswith(("model:", "nn.")):
        return False
    if made == "[]":
        return False  # a part of a batch may be a collection that moves in place
    if receiver.name.startswith("."):
        return tail in _PURE_METHODS and made in _PURE_METHODS | _TENSOR_METHODS | _FUNCTIONS | {"matmul"}
    return True


def _report(context: Context, event: Event, tail: str) -> Finding:
    return context.finding(
        RULE,
        event,
        f"the result of {tail} is thrown away: it returns a new tensor and leaves the old one as it is",
        severity=None if _used_afterwards(event) and not _without_gradient(context, event, tail) else "warning",
        evidence=[Evidence("call", event.script.segment(event.node)[:80])],
        fix=Fix(
            title="assign the result",
            edits=edits(_edit(context, event)),
            instruction=f"assign what {tail} returns, or use its in-place form",
            expected=f"the {tail} takes effect",
        ),
    )


def _without_gradient(context: Context, event: Event, tail: str) -> bool:
    """Whether nothing was to be cut off: no gradient goes through what ``detach`` was called on."""
    return tail == "detach" and not any(graph(context).trains(option) for option in options_of(event.receiver))


def _used_afterwards(event: Event) -> bool:
    """Whether what was to be changed is read again: in what follows, or at the beginning of the next pass of a loop.

    An operand that is no plain name may be read anywhere.
    """
    node = event.node
    if not isinstance(node, ast.Call):
        return True
    target: ast.expr | None = node.args[0] if node.args else None
    if event.name.startswith(".") and isinstance(node.func, ast.Attribute):
        target = node.func.value
    if not isinstance(target, ast.Name):
        return True
    around = [part for part in ast.walk(event.script.tree) if _encloses(part, node)]
    functions = [part for part in around if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
    whole = functions[-1] if functions else event.script.tree
    uses = [part for part in ast.walk(whole) if isinstance(part, ast.Name) and part.id == target.id]
    later = [use for use in uses if _place(use) > _place(node) and use is not target]
    following = min(later, key=_read_before_written, default=None)
    if following is not None and isinstance(following.ctx, ast.Load):
        return True
    for loop in (part for part in around if isinstance(part, (ast.For, ast.AsyncFor, ast.While))):
        inside = [use for use in uses if _encloses(loop, use) and _encloses(whole, loop)]
        first = min(inside, key=_read_before_written, default=None)
        if first is not None and first is not target and isinstance(first.ctx, ast.Load):
            return True
    return False


def _place(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _read_before_written(name: ast.Name) -> tuple[int, bool, int]:
    """The order in which names of one line are used: what is assigned is written last."""
    return name.lineno, isinstance(name.ctx, ast.Store), name.col_offset


def _encloses(outer: ast.AST, inner: ast.expr | ast.stmt) -> bool:
    if isinstance(outer, ast.Module):
        return True
    if not isinstance(outer, ast.stmt) or outer.end_lineno is None:
        return False
    return outer.lineno <= inner.lineno <= outer.end_lineno


def _edit(context: Context, event: Event) -> Edit | None:
    """``x = x.f(...)`` where the operand is a plain name."""
    node = event.node
    if not isinstance(node, ast.Call):
        return None
    if event.name.startswith(".") and isinstance(node.func, ast.Attribute):
        target: ast.AST | None = node.func.value
    else:
        target = node.args[0] if node.args else None
    if not isinstance(target, ast.Name):
        return None
    text = event.script.segment(node)
    return context.replace(event, f"{target.id} = {text}") if "#" not in text else None
