"""The result of a function with a backward of its own is thrown away, so its backward is never run.

## What it does
Looks for `Scaler.apply(x, loss)` on a line of its own, where `Scaler` is a `torch.autograd.Function` of the script whose forward changes nothing.

## Why
A node of the graph hangs on what the forward returns.
Where that is not used further, no gradient comes by, and what the backward was to add (the gradient of an auxiliary loss, a reversed gradient, an exchange) is never added.
The model trains and the main loss falls.

## Fix
Go on with the result in the place of the argument: `x = Scaler.apply(x, loss)`.

## When to ignore
When the call only compiles or warms something up.

## References
- PyTorch documentation, "Extending torch.autograd"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="function-result-discarded",
    code="MOD019",
    severity="error",
    confidence="likely",
    layer="S",
    tags=("tensors",),
)

_HEAD = """
import torch
from torch import nn
class Rider(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, extra):
        ctx.save_for_backward(extra)
        return output
    @staticmethod
    def backward(ctx, grad):
        (extra,) = ctx.saved_tensors
        return grad, torch.ones_like(extra)
"""
_GATE = """
class Gate(nn.Module):
    def forward(self, x):
        weights = x.softmax(-1)
        penalty = weights.mean(0).square().sum()
"""
BAD = (
    f"""{_HEAD}{_GATE}        Rider.apply(weights, penalty)
        return weights
""",
    """
import torch
from torch.autograd import Function
class Reverse(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -grad
def classify(domain, features):
    Reverse.apply(features)
    return domain(features)
""",
)

GOOD = (
    f"""{_HEAD}{_GATE}        weights = Rider.apply(weights, penalty)
        return weights
""",
    """
import torch
class Fill(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, value):
        x.fill_(value)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad), None
def reset(x):
    Fill.apply(x, 0.0)
    return x
""",
    """
import torch, kernels
class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out, x):
        kernels.scatter(out, x)
        return out
    @staticmethod
    def backward(ctx, grad):
        return grad, grad
def put(out, x):
    Scatter.apply(out, x)
    return out
""",
    """
from helpers import Function
class Task(Function):
    @staticmethod
    def forward(ctx, x):
        return x
def run(model, x):
    Task.apply(x)
    model.apply(print)
""",
)

_BASES = frozenset({"torch.autograd.Function", "autograd.Function"})
_PURE = frozenset({"torch", "F", "math"})


def check(context: Context) -> Iterator[Finding]:
    """Look for statements that are nothing but the application of such a function."""
    for script in context.reading.scripts:
        pure = {one.name for one in script.nodes(ast.ClassDef) if _is_function(one, script) and _changes_nothing(one)}
        for statement in script.nodes(ast.Expr) if pure else ():
            call = statement.value
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "apply":
                continue
            if isinstance(call.func.value, ast.Name) and call.func.value.id in pure:
                yield _finding(context, script, statement, call.func.value.id)


def _finding(context: Context, script: Script, place: ast.Expr, name: str) -> Finding:
    return context.finding(
        RULE,
        (script, place),
        f"the result of {name}.apply is thrown away: its backward is never run, and what it was to add is never added",
        evidence=[Evidence("call", script.segment(place)[:80])],
        fix=Fix(
            title="go on with the result",
            instruction=f"assign what {name}.apply returns, and use it in the place of the argument",
            expected="the backward of the function is part of the graph",
        ),
    )


def _is_function(one: ast.ClassDef, script: Script) -> bool:
    bases = {ast.unparse(base) for base in one.bases}
    if bases & _BASES:
        return True
    return "Function" in bases and any(
        made.module == "torch.autograd" and any(alias.name == "Function" for alias in made.names)
        for made in script.nodes(ast.ImportFrom)
    )


def _changes_nothing(one: ast.ClassDef) -> bool:
    """Whether the forward only makes tensors: it writes to nothing, and calls nothing that may."""
    for method in one.body:
        if isinstance(method, ast.FunctionDef) and method.name == "forward":
            given = {argument.arg for argument in method.args.args}
            return all(_is_pure(part, given) for part in ast.walk(method))
    return False


def _is_pure(part: ast.AST, given: set[str]) -> bool:
    if isinstance(part, (ast.Global, ast.Nonlocal, ast.Delete)):
        return False
    if isinstance(part, ast.Subscript):
        return isinstance(part.ctx, ast.Load)
    if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
        return isinstance(part.value, ast.Name) and part.value.id == "ctx"
    if not isinstance(part, ast.Call):
        return True
    function = part.func
    if not isinstance(function, ast.Attribute) or function.attr.endswith("_") or function.attr == "mark_dirty":
        return False
    return _root(function) in given | _PURE and "distributed" not in ast.unparse(function)


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
