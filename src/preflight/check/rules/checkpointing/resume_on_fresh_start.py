"""A checkpoint is read before anything has written it.

## What it does
Looks for a `torch.load` of a fixed path that this script itself writes later, without a test whether it is there.

## Why
On the first start the file does not exist, and the script ends with FileNotFoundError.
On every later start it silently goes on from the old run, although nobody asked for that.

## Fix
Read the checkpoint only when an option asks for it, or when the file exists.

## When to ignore
When another program writes the first checkpoint.

## References
- Python, `FileNotFoundError`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.states import SAVES, text_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Func
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="resume-on-fresh-start",
    code="CKP007",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    tags=("checkpoint",),
)

_TRAIN = """
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
"""

BAD = (
    f"""{_HEAD}
model.load_state_dict(torch.load("last.pt")){_TRAIN}
    torch.save(model.state_dict(), "last.pt")
""",
    f"""{_HEAD}
import os
from torch import load as read
FOLDER = "out"
path = os.path.join(FOLDER, "last.pt")
def restore():
    model.load_state_dict(read(path)["model"])
restore(){_TRAIN}
torch.save(dict(model=model.state_dict()), path)
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", default="last.pt")
args = parser.parse_args()
class Keeper:
    def load(self):
        model.load_state_dict(torch.load(args.checkpoint))
    def save(self):
        torch.save(model.state_dict(), args.checkpoint)
keeper = Keeper()
keeper.load(){_TRAIN}
    keeper.save()
""",
)

GOOD = (
    f"""{_HEAD}
import os
if os.path.exists("last.pt"):
    model.load_state_dict(torch.load("last.pt")){_TRAIN}
    torch.save(model.state_dict(), "last.pt")
""",
    f"""{_HEAD}
try:
    model.load_state_dict(torch.load("last.pt"))
except FileNotFoundError:
    print("a fresh start"){_TRAIN}
    torch.save(model.state_dict(), "last.pt")
""",
    f"""{_HEAD}{_TRAIN}
    torch.save(model.state_dict(), "best.pt")
model.load_state_dict(torch.load("best.pt"))
""",
    f"""{_HEAD}
model.load_state_dict(torch.load("pretrained.pt")){_TRAIN}
    torch.save(model.state_dict(), "last.pt")
""",
    f"""{_HEAD}
import os
def cached(folder):
    for name in ("rows.pt", "words.pt"):
        if not os.path.exists(os.path.join(folder, name)):
            return None
    return torch.load(os.path.join(folder, "rows.pt"))
rows = cached("data")
if rows is None:
    rows = make_rows()
    torch.save(rows, "data/rows.pt"){_TRAIN}
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find reads of a file that only this script writes, and later."""
    saves = [(text_of(e.argument(1, "f")), e) for e in context.trace.calls(*SAVES)]
    for load in context.trace.calls("torch.load"):
        path = text_of(load.argument(0, "f"))
        if path is None or _tested(load):
            continue
        writes = [event for written, event in saves if written == path]
        if any(event.script is not context.reading.script for event in writes):
            continue  # a function of a module of the project, which other scripts may call as well
        if writes and all(event.number > load.number for event in writes):
            yield context.finding(
                RULE,
                load,
                f'"{path}" is read at every start, but only this script writes it: the first start ends with an error',
                evidence=[Evidence("path that is read and later written", path), Evidence("tests around the read", 0)],
                fix=Fix(
                    title="read the checkpoint only when it is there and wanted",
                    instruction=f'test os.path.exists("{path}"), or add an option --resume',
                    expected="a fresh start works, and a resume happens on purpose",
                ),
                related=[(writes[0], "the file is first written here")],
            )


def _tested(load: Event) -> bool:
    """Whether a branch, a loop, an exception handler or an early return decides that the file is read."""
    if load.context.shadow or any(f.kind in ("if", "try", "except", "loop") for f in load.context.frames()):
        return True
    inner: ast.AST = load.node
    for frame in load.context.frames():
        if frame.kind == "call" and isinstance(frame.value, Func):
            if _left_before(frame.value.node, inner):
                return True
            inner = frame.node or inner
    return False


def _left_before(function: ast.AST, call: ast.AST) -> bool:
    """Whether a branch above a call may leave the function: ``if not os.path.exists(path): return``."""
    line = getattr(call, "lineno", 0)
    leaves = (part for branch in ast.walk(function) if isinstance(branch, ast.If) for part in ast.walk(branch))
    return any(isinstance(part, (ast.Return, ast.Raise)) and part.lineno < line for part in leaves)
