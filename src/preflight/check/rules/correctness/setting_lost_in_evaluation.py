"""A setting of a module is overwritten in evaluation and never set back.

## What it does
Looks for methods that write a number to an attribute of their module where `self.training` is false, where nothing but `__init__` writes to it otherwise, and where the attribute is handed to a call.

## Why
`self.dropout_p = 0.0` in a forward pass does what is wanted in the first evaluation.
The training goes on with it: from then on nothing is dropped, in any pass.

## Fix
Use a local variable: `p = self.dropout_p if self.training else 0.0`.

## When to ignore
When the setting is meant to change for good at the first evaluation.

## References
- PyTorch documentation of `torch.nn.Module.eval`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.script import Script
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="setting-lost-in-evaluation",
    code="MOD018",
    severity="error",
    confidence="likely",
    layer="S",
    tags=("modes",),
)
_MAKING = "__init__"

_HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
class Attention(nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.p = p
"""
_USE = """
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
"""

BAD = (
    f"""{_HEAD}
    def forward(self, q, k, v):
        if not self.training:
            self.p = 0.0{_USE}""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.noise = 0.3
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        if self.training is False:
            self.noise = 0
        return self.fc(torch.add(x, torch.randn_like(x), alpha=self.noise))
""",
    f"""{_HEAD}
    def forward(self, q, k, v):
        if self.training:
            pass
        else:
            self.p = 0.0{_USE}""",
)

GOOD = (
    f"""{_HEAD}
    def forward(self, q, k, v):
        p = self.p if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p)
""",
    f"""{_HEAD}
        self.rate = p
    def forward(self, q, k, v):
        if not self.training:
            self.p = 0.0
        else:
            self.p = self.rate{_USE}""",
    """
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.merged, self.fc = 0, False, nn.Linear(2, 2)
    def forward(self, x):
        if not self.training:
            self.merged = True
            self.calls = 0
        return self.fc(x)
""",
    f"""{_HEAD}
    def train(self, mode=True):
        self.p = 0.1
        return super().train(mode)
    def forward(self, q, k, v):
        if not self.training:
            self.p = 0.0{_USE}""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find numbers that a module writes over one of its settings where it does not train."""
    scripts = context.reading.scripts
    for script in scripts:
        for kind in script.nodes(ast.ClassDef):
            for name, places in _lost(kind).items():
                if all(_writes(other, name) <= places for other in scripts) and _handed_on(kind, name):
                    yield _finding(context, script, kind, name)


def _lost(kind: ast.ClassDef) -> dict[str, set[int]]:
    """Attributes that are written in ``__init__`` and, elsewhere, only as a number in evaluation; with all these places."""
    made: dict[str, set[int]] = {}
    found: dict[str, set[int]] = {}
    for method in kind.body:
        if isinstance(method, ast.FunctionDef) and method.name == _MAKING:
            for one in ast.walk(method):
                name = _under_self(one)
                if name is not None and isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                    made.setdefault(name, set()).add(id(one))
        elif isinstance(method, ast.FunctionDef):
            for test in ast.walk(method):
                for line in _evaluating(test):
                    for name, target in _numbers(line):
                        found.setdefault(name, set()).add(id(target))
    return {name: places | made[name] for name, places in found.items() if name in made}


def _evaluating(test: ast.AST) -> list[ast.stmt]:
    """The lines of a branch that is taken where the module does not train."""
    if not isinstance(test, ast.If):
        return []
    if _is_training(test.test):
        return test.orelse
    told = test.test
    negated = isinstance(told, ast.UnaryOp) and isinstance(told.op, ast.Not) and _is_training(told.operand)
    compared = (
        isinstance(told, ast.Compare)
        and _is_training(told.left)
        and isinstance(told.ops[0], (ast.Is, ast.Eq))
        and isinstance(told.comparators[0], ast.Constant)
        and told.comparators[0].value is False
    )
    return test.body if negated or compared else []


def _is_training(node: ast.AST) -> bool:
    return _under_self(node) == "training"


def _numbers(line: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Attributes of the module that a line sets to a number."""
    if not isinstance(line, ast.Assign) or not isinstance(line.value, ast.Constant):
        return
    if isinstance(line.value.value, (int, float)) and not isinstance(line.value.value, bool):
        for target in line.targets:
            name = _under_self(target)
            if name is not None:
                yield name, target


def _under_self(node: ast.AST) -> str | None:
    held = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if held and isinstance(node, ast.Attribute) else None


def _writes(script: Script, name: str) -> set[int]:
    """All places of a script that write to an attribute of a name, whosever it is."""
    return {id(one) for one in script.nodes(ast.Attribute) if one.attr == name and not isinstance(one.ctx, ast.Load)}


def _handed_on(kind: ast.ClassDef, name: str) -> bool:
    """Whether a method hands the attribute to a call."""
    given = [
        one
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.name != _MAKING
        for call in ast.walk(method)
        if isinstance(call, ast.Call)
        for one in (*call.args, *(keyword.value for keyword in call.keywords))
    ]
    return any(_under_self(one) == name for one in given)


def _finding(context: Context, script: Script, kind: ast.ClassDef, name: str) -> Finding:
    tests = (line for test in ast.walk(kind) for line in _evaluating(test))
    node = next(target for line in tests for found, target in _numbers(line) if found == name)
    return context.finding(
        RULE,
        (script, node),
        f"{kind.name} overwrites self.{name} the first time that it is evaluated, and nothing sets it back: "
        "the training goes on with the value of the evaluation",
        evidence=[Evidence(f"other writes to {name}", 0, arithmetic="but in __init__")],
        related=[((script, kind), "the class")],
        fix=Fix(
            title="keep the setting",
            instruction=f"use a local variable that is self.{name} in training and another value in evaluation",
            expected="the training goes on with its own value",
        ),
    )
