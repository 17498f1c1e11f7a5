"""A resumed run repeats or skips an epoch.

## What it does
Compares the number that is saved at the end of an epoch with the number that the resumed loop begins at.

## Why
A checkpoint that says `epoch: 5` after epoch 5 is done, and a loop that begins at 5, train epoch 5 twice.
A schedule that is restored is then one epoch ahead of the loop.
With both `+ 1` in place an epoch is left out.

## Fix
Add one exactly once: save `epoch + 1`, or begin at `checkpoint["epoch"] + 1`.

## When to ignore
When checkpoints are written in the middle of an epoch and that epoch is meant to be repeated.

## References
- pytorch/examples, `imagenet/main.py`, saves `epoch + 1` and begins at the saved number
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.counts import operands
from preflight.check.queries.states import resume
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Dict, Known, Obj, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="resumed-epoch-repeated",
    code="CKP002",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    tags=("checkpoint",),
)

_LOOP = """
for epoch in range(start, 10):
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
start = 0
"""
_LOAD = """
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
"""
_STATES = '"model": model.state_dict(), "optimizer": optimizer.state_dict()'

BAD = (
    f"""{_HEAD}
if resume:
    checkpoint = torch.load("last.pt")
    start = checkpoint["epoch"]{_LOAD}{_LOOP}
    torch.save({{"epoch": epoch, {_STATES}}}, "last.pt")
""",
    f"""{_HEAD}
from torch import save as write, load as read
def restore(path):
    checkpoint = read(path){_LOAD}
    return checkpoint["epoch"] + 1
if resume:
    start = restore("last.pt"){_LOOP}
    write(dict(epoch=epoch + 1, model=model.state_dict(), optimizer=optimizer.state_dict()), "last.pt")
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--resume", default=None)
parser.add_argument("--start-epoch", type=int, default=0)
args = parser.parse_args()
if args.resume:
    checkpoint = torch.load(args.resume)
    args.start_epoch = checkpoint["epoch"]{_LOAD}
for epoch in range(args.start_epoch, 90):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = {{"epoch": epoch, {_STATES}}}
    torch.save(state, "last.pt")
""",
)

GOOD = (
    f"""{_HEAD}
if resume:
    checkpoint = torch.load("last.pt")
    start = checkpoint["epoch"]{_LOAD}{_LOOP}
    torch.save({{"epoch": epoch + 1, {_STATES}}}, "last.pt")
""",
    f"""{_HEAD}
if resume:
    checkpoint = torch.load("last.pt")
    start = 1 + checkpoint["epoch"]{_LOAD}{_LOOP}
    torch.save({{"epoch": epoch, {_STATES}}}, "last.pt")
""",
    f"""{_HEAD}
if resume:
    checkpoint = torch.load("last.pt")
    start = checkpoint["epoch"]{_LOAD}
for epoch in range(start, 10):
    torch.save({{"epoch": epoch, {_STATES}}}, "last.pt")
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the saved number with the first one."""
    found = resume(context)
    if found.start is None or found.first is None:
        return
    loaded = {id(e.result) for e in found.loads}
    begin = _loaded(found.first, loaded)
    if begin is None:
        return
    key, added = begin
    steps = [s.number for loop in context.reading.loops for s in loop.steps]
    for event, table in found.saves:
        if key not in table.entries or not event.context.within(found.start) or not steps or event.number < min(steps):
            continue
        loops = event.context.loops()
        if not loops or loops[0] is not found.start:
            continue  # in the middle of an epoch
        saved = _saved(table, key, found.start.value)
        if saved is not None and saved + added != 1:
            yield _finding(context, event, key, saved, added, found.loads[0])


def _offset(value: Value) -> tuple[Value, int]:
    """A value without the whole number that is added to it."""
    base = settle(value)
    parts = operands(base)
    if parts is not None and parts[0] in ("+", "-"):
        for one, other in ((parts[1], parts[2]), (parts[2], parts[1])):
            number = settle(other)
            if isinstance(number, Known) and isinstance(number.value, int) and (parts[0] == "+" or other is parts[2]):
                return one, number.value if parts[0] == "+" else -number.value
    return value, 0


def _loaded(value: Value, loaded: set[int]) -> tuple[str, int] | None:
    """The key and offset of a number from a checkpoint."""
    for option in options_of(value):
        inner, added = _offset(option)
        for part in options_of(inner):
            if isinstance(part, Obj) and part.kind == "item" and part.receiver is not None and part.args:
                key = settle(part.args[0])
                if id(settle(part.receiver)) in loaded and isinstance(key, Known):
                    return str(key.value), added
    return None


def _saved(table: Dict, key: str, iterated: Value | None) -> int | None:
    """What is added to the epoch in what is saved; None where it is not the epoch of the loop."""
    inner, added = _offset(table.entries[key])
    base = settle(inner)
    source = settle(iterated) if iterated is not None else None
    if isinstance(base, Unknown) and any(settle(p) is source for p in base.parents):
        return added
    return None


def _finding(context: Context, event: Event, key: str, saved: int, added: int, load: Event) -> Finding:
    total = saved + added
    what = "is trained twice" if total < 1 else "is left out"
    return context.finding(
        RULE,
        event,
        f'"{key}" is saved as epoch{f" + {saved}" if saved else ""} after the epoch, and the resumed loop begins at '
        f"that number{f' + {added}' if added else ''}: an epoch {what}",
        evidence=[
            Evidence(
                "added to the epoch on the way",
                total,
                arithmetic=f"{saved} when saving + {added} when loading; 1 is right",
            )
        ],
        fix=Fix(
            title="add one exactly once",
            instruction=f'save epoch + 1, and begin at checkpoint["{key}"]',
            expected="the resumed run begins with the epoch that comes next",
        ),
        related=[(load, "the checkpoint is read here")],
    )
