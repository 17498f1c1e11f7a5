"""A checkpoint is asked for an entry that is never saved.

## What it does
Compares the entries that are read from a checkpoint with those that the script saves into a file of the same name.
It speaks only where every `torch.save` of the script is given a dictionary whose entries are all known, and nothing asks whether the entry is there.

## Why
The run that resumes ends with a `KeyError`, which nobody sees before the first interruption: the run that writes the checkpoint never reads it.

## Fix
Save the entry, or read it under the name it was saved under.

## When to ignore
When the file is replaced by one from another script before it is read.

## References
- PyTorch, "Saving and Loading Models", a general checkpoint
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.values import Dict, Known, Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="checkpoint-key-never-saved",
    code="CKP013",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "complete"),
    tags=("checkpoint",),
)

_FILLS = (".update", ".setdefault", ".__ior__")
_READS = ("builtins.print", "builtins.len", "builtins.sorted", "builtins.list", "builtins.type", "builtins.isinstance")
_TRAIN = """
for epoch in range(start, 10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
_NET = """
import contextlib
import os
import torch
from torch import nn
from converting import converted
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
start = 0
"""

BAD = (
    _NET
    + """
if os.path.exists("last.pt"):
    saved = torch.load("last.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optim"])
    start = saved["epoch"] + 1
"""
    + _TRAIN
    + """
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")
""",
    """
import argparse, torch
import torch.nn as nn
from torch.optim import AdamW
parser = argparse.ArgumentParser()
parser.add_argument("--path", default="out/state.pt")
parser.add_argument("--resume", action="store_true")
args = parser.parse_args()
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 2)
        self.opt = AdamW(self.net.parameters())
        self.epoch = 0
    def save(self, epoch):
        torch.save(dict(net=self.net.state_dict(), opt=self.opt.state_dict()), args.path)
    def load(self):
        state = torch.load(args.path, map_location="cpu")
        self.net.load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])
        self.epoch = state["epoch"] + 1
    def fit(self):
        for epoch in range(self.epoch, 10):
            for x, y in loader:
                self.opt.zero_grad()
                nn.functional.cross_entropy(self.net(x), y).backward()
                self.opt.step()
            self.save(epoch)
trainer = Trainer()
if args.resume:
    trainer.load()
trainer.fit()
""",
    _NET
    + _TRAIN
    + """
    state = {"weights": model.state_dict()}
    state["epoch"] = epoch
    torch.save(state, "best.pt")
best = torch.load("best.pt")
model.load_state_dict(best["state_dict"])
""",
)

GOOD = (
    _NET
    + """
saved, first, second = torch.load("last.pt"), torch.load("last.pt"), torch.load("last.pt")
saved.setdefault("ema", None)
print(saved["ema"])
converted(first)
print(first["weights"])
for name in list(second):
    second["old_" + name] = second[name]
print(second["old_model"])
with contextlib.suppress(KeyError):
    print(torch.load("last.pt")["extra"])
"""
    + _TRAIN
    + """
    torch.save({"model": model.state_dict()}, "last.pt")
""",
    _NET
    + """
if os.path.exists("last.pt"):
    saved = torch.load("last.pt")
    model.load_state_dict(saved["model"])
    if "optim" in saved:
        optimizer.load_state_dict(saved["optim"])
    start = saved["epoch"] + 1
"""
    + _TRAIN
    + """
    state = {"model": model.state_dict()}
    state["epoch"] = epoch
    torch.save(state, "last.pt")
""",
    _NET
    + """
if os.path.exists("pretrained.pt"):
    model.load_state_dict(torch.load("pretrained.pt")["teacher"])
"""
    + _TRAIN
    + """
    torch.save({"model": model.state_dict(), **extra(epoch)}, "last.pt")
saved = torch.load("last.pt")
print(saved["extra"])
""",
    _NET
    + """
try:
    saved = torch.load("last.pt")
    start = saved["first"]
except KeyError:
    start = 0
"""
    + _TRAIN
    + """
    torch.save({"model": model.state_dict()}, "last.pt")
""",
    _NET
    + """
saved = torch.load("teacher.pt")
model.load_state_dict(saved["teacher"])
"""
    + _TRAIN
    + """
    torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
""",
    _NET
    + """
saved, teacher = torch.load("last.pt"), torch.load("teacher.pt")
saved["model"] = teacher["weights"]
model.load_state_dict(saved["model"])
"""
    + _TRAIN
    + """
    torch.save({"epoch": epoch}, "last.pt")
""",
    _NET
    + """
saved = torch.load("last.pt")
model.load_state_dict(saved["model"])
"""
    + _TRAIN
    + """
    torch.save(model.state_dict(), "last.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare what is read from a file with what is saved into one of its name."""
    saves = [(event, _table(event)) for event in context.trace.calls("torch.save")]
    if not saves or any(table is None for _, table in saves):
        return
    keys = {key for _, table in saves if table is not None for key in table.entries if isinstance(key, str)}
    told: set[str] = set()
    for load in context.trace.calls("torch.load"):
        written = next((event for event, _ in saves if _same_file(event.argument(1, "f"), load.argument(0, "f"))), None)
        if written is None or not isinstance(load.result, Obj) or _may_be_filled(context, load.result):
            continue
        for key, read in _read(load.result):
            if key not in keys and key not in told and not _asked_for(context, key) and not _tried(load, read):
                told.add(key)
                yield _finding(context, read, written, key, keys)


def _table(save: Event) -> Dict | None:
    """The dictionary that is saved, where all its entries are known."""
    given = save.argument(0, "obj")
    held = settle(given) if given is not None else None
    return held if isinstance(held, Dict) and not held.open and held.entries else None


def _same_file(one: Value | None, other: Value | None) -> bool:
    if one is None or other is None:
        return False
    named = plain(one)
    return settle(one) is settle(other) or (isinstance(named, str) and named == plain(other))


def _read(loaded: Obj) -> Iterator[tuple[str, Obj]]:
    """The entries that are read, by their names."""
    for label, value in loaded.attrs.items():
        if not isinstance(value, Obj) or value.kind != "item" or not value.args or value.receiver is None:
            continue
        key = settle(value.args[0])
        if isinstance(key, Known) and isinstance(key.value, str) and label == f"[{key.value!r}]":
            yield key.value, value


def _asked_for(context: Context, key: str) -> bool:
    """Whether the script asks anywhere whether something has an entry of this name."""
    for script in context.reading.scripts:
        for node in script.nodes(ast.Compare):
            inside = any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops)
            if inside and any(isinstance(part, ast.Constant) and part.value == key for part in ast.walk(node)):
                return True
    return False


def _tried(load: Event, read: Obj) -> bool:
    """Whether an error of the reading is caught, or a branch of its own decides whether anything is read."""
    around = {id(frame) for frame in load.context.frames()}
    frames = list(read.context.frames()) if read.context is not None else []
    caught = any(frame.kind in ("try", "except") or _suppresses(frame) for frame in frames)
    return caught or any(frame.kind == "if" and id(frame) not in around for frame in frames)


def _suppresses(frame: Frame) -> bool:
    held = settle(frame.value) if frame.kind == "with" and frame.value is not None else None
    return isinstance(held, Obj) and held.name == "contextlib.suppress"


def _may_be_filled(context: Context, loaded: Obj) -> bool:
    """Whether something may put entries into what was loaded: a method that does, a call that is given it, a key that is not known."""
    for event in context.trace.events:
        if event.name in _FILLS and event.receiver is not None and settle(event.receiver) is loaded:
            return True
        if (
            not event.inlined
            and event.name not in _READS
            and any(settle(one) is loaded for one in (*event.args, *event.kwargs.values()))
        ):
            return True
    return any(
        settle(store.target) is loaded and not store.name.startswith(("['", '["')) for store in context.trace.stores
    )


def _finding(context: Context, read: Obj, written: Event, key: str, keys: set[str]) -> Finding:
    near = get_close_matches(key, keys, n=1)
    instruction = f'read it as "{near[0]}"' if near else f'save an entry "{key}", or do not read it'
    return context.finding(
        RULE,
        read,
        f'the checkpoint has no entry "{key}": a run that resumes from it ends with a KeyError',
        evidence=[Evidence("read", key), Evidence("saved", ", ".join(sorted(keys)))],
        fix=Fix(
            title="read what was saved",
            instruction=instruction,
            expected="a resumed run finds all that it asks for",
        ),
        related=[(written, "the checkpoint is written here")],
    )
