"""The result of a function with a backward of its own is thrown away, so its backward is never run.

## What it does
Looks for `Scaler.apply(x, loss)` on a line of its own in a function that goes on with `x`, where `Scaler` is a `torch.autograd.Function` of the script whose forward changes nothing.

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
    """
from torch import autograd, nn
class Round(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()
    @staticmethod
    def backward(ctx, grad):
        return grad
class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
    def forward(self, x):
        codes = self.inner(x)
        Round.apply(codes)
        return codes
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
import time, torch
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad
def measure(x, repeats):
    Square.apply(x)
    begun = time.perf_counter()
    for _ in range(repeats):
        Square.apply(x)
    return time.perf_counter() - begun, x.shape
def warm_up(x):
    Square.apply(x)
def refuses(x):
    try:
        Square.apply(x)
    except RuntimeError:
        return x
for _ in range(3):
    Square.apply(torch.ones(3, requires_grad=True))
""",
    """
import torch
class Record(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, log):
        log.append(x.abs().mean())
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return grad, None
class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, total, x):
        total += x
        return total
    @staticmethod
    def backward(ctx, grad):
        return grad, grad
class Into(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out, x):
        torch.mul(x, 2, out=out)
        return out
    @staticmethod
    def backward(ctx, grad):
        return None, 2 * grad
class Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, name):
        torch.cuda.nvtx.mark(name)
        return x
    @staticmethod
    def backward(ctx, grad):
        return grad, None
def run(net, total, x, log):
    Record.apply(x, log)
    Mark.apply(x, "in")
    Add.apply(total, x)
    Into.apply(total, x)
    return net(x) + total
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
_FUNCTIONALS = frozenset({"F", "math", "functional", "torch.nn.functional", "nn.functional"})
_TENSOR_METHODS = frozenset(
    "view_as view reshape expand expand_as clone detach contiguous transpose permute flatten squeeze unsqueeze t chunk split"
    " float half double bfloat16 to type type_as size dim numel sum mean max min abs exp log sqrt square sign clamp mul add"
    " sub div neg pow matmul mm bmm softmax sigmoid tanh relu round floor norm item new_zeros new_ones new_empty".split()
)
"""Methods of a tensor that leave it as it is; another one may be that of a list, a meter, or a buffer."""
_CONTEXT_METHODS = frozenset(
    {"save_for_backward", "save_for_forward", "set_materialize_grads", "mark_non_differentiable"}
)
_LOUD = ("save", "manual_seed", "set_", "use_", "_")
"""How functions of torch begin that are called for what they do."""


def check(context: Context) -> Iterator[Finding]:
    """Look for statements that are nothing but the application of such a function."""
    for script in context.reading.scripts:
        pure = {one.name for one in script.nodes(ast.ClassDef) if _is_function(one, script) and _changes_nothing(one)}
        for function in script.nodes(ast.FunctionDef) if pure else ():
            for statement in _thrown_away(function, pure):
                yield _finding(context, script, statement, _applied(statement.value))


def _thrown_away(function: ast.FunctionDef, pure: set[str]) -> Iterator[ast.Expr]:
    """Statements that only apply one of these, in a function that goes on with what it was applied to.

    One that is applied more than once is measured or warmed up; where something is entered or tried, errors are.
    """
    calls = [_applied(node) for node in ast.walk(function)]
    for statement in _plainly_reached(function.body):
        name = _applied(statement.value)
        if name not in pure or calls.count(name) > 1 or not isinstance(statement.value, ast.Call):
            continue
        given = {argument.id for argument in statement.value.args if isinstance(argument, ast.Name)}
        if any(
            isinstance(node, ast.Name) and node.id in given and node.lineno > (statement.end_lineno or statement.lineno)
            for node in ast.walk(function)
        ):
            yield statement


def _plainly_reached(body: list[ast.stmt]) -> Iterator[ast.Expr]:
    for statement in body:
        if isinstance(statement, ast.Expr):
            yield statement
        elif isinstance(statement, (ast.If, ast.For, ast.While)):
            yield from _plainly_reached([*statement.body, *statement.orelse])


def _applied(node: ast.AST) -> str:
    """The name of what a call applies, as in ``Name.apply(...)``; nothing for anything else."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute) and function.attr == "apply" and isinstance(function.value, ast.Name):
        return function.value.id
    return ""


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
    methods = [m for m in one.body if isinstance(m, ast.FunctionDef) and m.name in ("forward", "setup_context")]
    return any(m.name == "forward" for m in methods) and all(
        _is_pure(part, {argument.arg for argument in method.args.args})
        for method in methods
        for part in ast.walk(method)
    )


def _is_pure(part: ast.AST, given: set[str]) -> bool:
    if isinstance(part, (ast.Global, ast.Nonlocal, ast.Delete, ast.AugAssign)):
        return False
    if isinstance(part, ast.Subscript):
        return isinstance(part.ctx, ast.Load)
    if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
        return isinstance(part.value, ast.Name) and part.value.id == "ctx"
    if not isinstance(part, ast.Call):
        return True
    function = part.func
    if not isinstance(function, ast.Attribute) or any(k.arg in ("out", "inplace", None) for k in part.keywords):
        return False
    holder, name = ast.unparse(function.value), function.attr
    if holder == "torch" or holder in _FUNCTIONALS:
        return not name.endswith("_") and not name.startswith(_LOUD)
    return _root(function) in given and name in _TENSOR_METHODS | _CONTEXT_METHODS


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
