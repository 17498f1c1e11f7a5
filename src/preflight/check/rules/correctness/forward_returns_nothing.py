"""The forward of a module returns nothing.

## What it does
Reports a module whose `forward` has no `return`, where the result of calling it is used.

## Why
The caller gets None, and the next operation on it stops the run.

## Fix
Return the result of the last layer.

## When to ignore
Never where the result is used.

## References
- PyTorch documentation of Module.forward
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.values import Func, Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="forward-returns-nothing", code="MOD012", severity="error", confidence="certain", layer="D", tags=("modules",)
)

BAD = (
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        x = self.fc(x)
net = Net()
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
import torch
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
    def forward(self, x):
        self.out = torch.relu(self.fc(x))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
    def forward(self, x):
        h = self.block(x)
        return h
net = Net()
for x in loader:
    net(x).mean().backward()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--deep", action="store_true")
args = p.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        if args.deep:
            x = self.b(x)
        self.a(x)
def loss_of(net, x):
    out = net(x)
    return out.sum()
net = Net()
for x in loader:
    loss_of(net, x).backward()
""",
)

GOOD = (
    """
import torch
from abc import ABC, abstractmethod
from torch import nn
class Base(nn.Module, ABC):
    @abstractmethod
    def forward(self, x):
        pass
def train(model: Base, optimizer, batches):
    for x in batches:
        optimizer.zero_grad()
        loss = model(x)["loss"]
        loss.backward()
        optimizer.step()
""",
    """
import torch.nn as nn
class Recorder(nn.Module):
    def forward(self, x):
        self.seen = x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.recorder = nn.Linear(8, 2), Recorder()
    def forward(self, x):
        self.recorder(x)
        return self.fc(x)
net = Net()
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
import torch.nn as nn
class Base(nn.Module):
    def forward(self, x):
        raise NotImplementedError
class Net(Base):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        def inner(h):
            return self.fc(h)
        return inner(x)
net = Net()
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for calls of modules whose forward has no return, and whose result is used."""
    events = (e for name, found in context.trace.by_name.items() if name.endswith(".forward") for e in found)
    for event in events:
        forward, module = event.func, settle(event.args[0]) if event.args else None
        if not event.inlined or not isinstance(forward, Func) or not isinstance(module, Obj) or not is_module(module):
            continue
        result = settle(event.result) if event.result is not None else None
        if not isinstance(result, Known) or result.value is not None or event.context.shadow:
            continue
        if _returns(forward.node) or _left_to_others(forward.node, module) or not isinstance(event.node, ast.Call):
            continue
        statement = context.statement(event.script, event.node)
        if statement is None or (isinstance(statement, ast.Expr) and statement.value is event.node):
            continue
        yield context.finding(
            RULE,
            (forward.module.script, forward.node),
            f"{forward.qualname} has no return, but its result is used: the caller gets None",
            evidence=[Evidence("return statements with a value", 0)],
            related=[(event, "the result is used here")],
            fix=Fix(
                title="return the result",
                instruction="end forward with a return of the last layer's output",
                expected="the caller gets the output",
            ),
        )


def _left_to_others(forward: ast.AST, module: Obj) -> bool:
    """Whether what runs is the forward of another class: this one is abstract, or only named by an annotation."""
    decorators = getattr(forward, "decorator_list", [])
    return module.kind == "param" or any("abstract" in ast.unparse(decorator) for decorator in decorators)


def _returns(node: ast.AST) -> bool:
    """Whether a function returns a value, yields, or always raises."""
    stack = list(ast.iter_child_nodes(node))
    while stack:
        current = stack.pop()
        if isinstance(current, ast.Return) and current.value is not None:
            return True
        if isinstance(current, (ast.Raise, ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(current))
    return False
