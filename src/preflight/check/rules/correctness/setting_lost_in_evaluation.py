"""A setting of a module is overwritten in evaluation and never set back.

## What it does
Looks for methods that write a number to an attribute of their module where `self.training` is false, where nothing but `__init__` writes to it otherwise, and where a pass of the training hands the attribute to a call.
A flag `training` that a script sets by hand is not the mode of a module, and classes are left alone where attributes are written by name, as with `setattr`.

## Why
`self.dropout_p = 0.0` in a forward pass does what is wanted in the first evaluation.
The training goes on with it: from then on nothing is dropped, in any pass.

## Fix
Use a local variable: `p = self.dropout_p if self.training else 0.0`.

## When to ignore
When the setting is meant to change for good at the first evaluation.
Scripts that copy models, which may evaluate the copy, and those that set attributes by computed names are left alone.

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
    f"""{_HEAD}
    def train(self, mode=True):
        setattr(self, "p", 0.1 if mode else 0.0)
        return super().train(mode)
    def forward(self, q, k, v):
        if not self.training:
            self.p = 0.0{_USE}""",
    f"""{_HEAD.replace("self.p = p", "self.p = 0.0")}
    def forward(self, q, k, v):
        if not self.training:
            self.p = 0.0{_USE}""",
    f"""{_HEAD}
    def forward(self, q, k, v):
        if self.training:
            return F.scaled_dot_product_attention(q, k, v)
        else:
            self.p = 0.5{_USE}""",
    """
import torch
class Player(Base):
    def __init__(self, training=True):
        self.training, self.chance = training, 0.3
    def act(self, state):
        if not self.training:
            self.chance = 0.0
        return choose(self.net(state), self.chance)
""",
    f"""{_HEAD}
    def forward(self, q, k, v):
        if not self.training:
            self.p = 0.0{_USE}
def settle(model, **settings):
    for name, value in settings.items():
        setattr(model, name, value)
""",
    f"""import copy{_HEAD}
    def forward(self, q, k, v):
        if not self.training:
            self.p = 0.0{_USE}
judged = copy.deepcopy(Attention()).eval()
""",
    """
import torch
from torch import nn
class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = 0
    def forward(self, x):
        if not self.training:
            self.offset = 0
        return torch.roll(x, self.offset)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find numbers that a module writes over one of its settings where it does not train."""
    scripts = context.reading.scripts
    if any(_writes(script, "training") or _writes_by_name(script) or _copies(script) for script in scripts):
        return
    for script in scripts:
        for kind in script.nodes(ast.ClassDef):
            for name, places in _lost(kind).items() if kind.bases else ():
                if all(_writes(other, name) <= places for other in scripts) and _handed_on(kind, name):
                    yield _finding(context, script, kind, name)


def _lost(kind: ast.ClassDef) -> dict[str, set[int]]:
    """Attributes that are written in ``__init__`` and, elsewhere, only as another number in evaluation; with all these places."""
    made: dict[str, set[int]] = {}
    given: set[tuple[str, float]] = set()
    found: dict[str, set[int]] = {}
    for method in kind.body:
        if isinstance(method, ast.FunctionDef) and method.name == _MAKING:
            for one in ast.walk(method):
                name = _under_self(one)
                if name is not None and isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                    made.setdefault(name, set()).add(id(one))
                given.update((name, number) for name, _, number in _numbers(one))
        elif isinstance(method, ast.FunctionDef):
            for test in ast.walk(method):
                for line in _evaluating(test):
                    for name, target, number in _numbers(line):
                        if (name, number) not in given:
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


def _numbers(line: ast.AST) -> Iterator[tuple[str, ast.expr, float]]:
    """Attributes of the module that a line sets to a number, and the number."""
    if not isinstance(line, ast.Assign) or not isinstance(line.value, ast.Constant):
        return
    if isinstance(line.value.value, (int, float)) and not isinstance(line.value.value, bool):
        for target in line.targets:
            name = _under_self(target)
            if name is not None:
                yield name, target, line.value.value


def _under_self(node: ast.AST) -> str | None:
    held = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if held and isinstance(node, ast.Attribute) else None


def _writes(script: Script, name: str) -> set[int]:
    """All places of a script that write to an attribute of a name, whosever it is."""
    return {id(one) for one in script.nodes(ast.Attribute) if one.attr == name and not isinstance(one.ctx, ast.Load)}


def _writes_by_name(script: Script) -> bool:
    """Whether a script writes to attributes whose names do not stand before an equals sign."""
    named = any(one.attr in ("__dict__", "__setattr__") for one in script.nodes(ast.Attribute))
    return named or any(one.id in ("setattr", "vars") for one in script.nodes(ast.Name))


def _copies(script: Script) -> bool:
    """Whether a script copies what it has: the copy may be evaluated in the place of what is trained."""
    names = any(one.id == "deepcopy" for one in script.nodes(ast.Name))
    return names or any(one.attr == "deepcopy" for one in script.nodes(ast.Attribute))


def _handed_on(kind: ast.ClassDef, name: str) -> bool:
    """Whether a pass of the training hands the attribute to a call."""
    return any(
        _under_self(one) == name
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.name != _MAKING
        for line in _in_training(method.body)
        for call in ast.walk(line)
        if isinstance(call, ast.Call)
        for one in (*call.args, *(keyword.value for keyword in call.keywords))
    )


def _in_training(block: list[ast.stmt]) -> Iterator[ast.AST]:
    """What of a block is run in training: without the branches of the evaluation, and to where a training pass returns."""
    for line in block:
        if isinstance(line, ast.If) and (_is_training(line.test) or _evaluating(line)):
            side = line.body if _is_training(line.test) else line.orelse
            yield from _in_training(side)
            if side and isinstance(side[-1], (ast.Return, ast.Raise)):
                return
        elif isinstance(line, (ast.If, ast.For, ast.While, ast.With)):
            yield from (part for part in ast.iter_child_nodes(line) if isinstance(part, (ast.expr, ast.withitem)))
            yield from _in_training(line.body)
            yield from _in_training(getattr(line, "orelse", []))
        else:
            yield line


def _finding(context: Context, script: Script, kind: ast.ClassDef, name: str) -> Finding:
    tests = (line for test in ast.walk(kind) for line in _evaluating(test))
    node = next(target for line in tests for found, target, _ in _numbers(line) if found == name)
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
