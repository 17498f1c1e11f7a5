"""Failures inside the training loop are swallowed.

## What it does
Looks for `except:` or `except Exception:` around a training step whose handler does nothing but go on.

## Why
An out-of-memory error, a wrong shape or a broken batch in every step leaves a loop that runs and trains nothing.
A bare `except:` also swallows Ctrl-C.
On several GPUs the rank that skipped a step waits in the next collective for the others: the run hangs.

## Fix
Catch the one error that is expected, count it, and raise after a few.

## When to ignore
When the handler is a known and counted exception.

## References
- Python, "Handling Exceptions"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="failure-hidden-in-loop",
    code="EXC001",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="S",
    tags=("failure",),
)

_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

BAD = (
    f"""{_HEAD}
for x, y in loader:
    try:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    except:
        continue
""",
    f"""{_HEAD}
def step(x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
for x, y in loader:
    try:
        step(x, y)
    except Exception as error:
        print("skipped", error)
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
class Job:
    def run(self, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                try:
                    loss.backward()
                    optimizer.step()
                except BaseException:
                    pass
Job().run(parser.parse_args().epochs)
""",
)

GOOD = (
    f"""{_HEAD}
for x, y in loader:
    try:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    except torch.cuda.OutOfMemoryError:
        continue
""",
    f"""{_HEAD}
try:
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
except Exception:
    torch.save(model.state_dict(), "crash.pt")
    raise
""",
    f"""{_HEAD}
failures = 0
for x, y in loader:
    try:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    except Exception:
        failures += 1
        if failures > 10:
            raise
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find handlers around a step that swallow everything."""
    for loop in context.reading.loops:
        for event in loop.backwards[:1]:
            found = _handler(event, loop.frame)
            if found is not None:
                yield _finding(context, event, found)


def _handler(event: Event, frame: object) -> tuple[object, ast.ExceptHandler] | None:
    for inner in event.context.frames():
        if inner is frame:
            return None
        if inner.kind == "try" and isinstance(inner.node, ast.Try):
            for handler in inner.node.handlers:
                if _everything(handler) and _goes_on(handler):
                    return inner.script, handler
    return None


def _everything(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    )


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler only continues, passes or prints."""
    for statement in handler.body:
        if isinstance(statement, (ast.Pass, ast.Continue)):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Constant, ast.Call)):
            call = statement.value
            if isinstance(call, ast.Constant) or (isinstance(call.func, ast.Name) and call.func.id == "print"):
                continue
        return False
    return True


def _finding(context: Context, event: Event, found: tuple[object, ast.ExceptHandler]) -> Finding:
    script, handler = found
    caught = "everything, Ctrl-C included" if handler.type is None else handler.type.id  # type: ignore[attr-defined]
    return context.finding(
        RULE,
        (script, handler),  # type: ignore[arg-type]
        f"the handler catches {caught} around the training step and goes on: "
        "a failure in every step leaves a loop that trains nothing",
        evidence=[Evidence("what is caught", caught)],
        fix=Fix(
            title="catch only what is expected, and count it",
            instruction="name the exception (torch.cuda.OutOfMemoryError), count, and raise after a few",
            expected="a failing run stops with its reason",
        ),
        related=[(event, "the training step")],
    )
