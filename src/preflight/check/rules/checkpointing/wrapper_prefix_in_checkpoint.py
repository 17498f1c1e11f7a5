"""A checkpoint of a wrapped model is loaded into a bare one.

## What it does
Follows a state that is saved from a DistributedDataParallel, DataParallel or compiled model to where it is loaded.
It speaks when the model that loads it is not wrapped in the same way.

## Why
A wrapper puts its own prefix before every name: `module.` (DDP, DP) or `_orig_mod.` (torch.compile).
Loading raises `Missing key(s) in state_dict`.
With `strict=False` nothing is raised and nothing is loaded: the model keeps its random weights.

## Fix
Save the state of the model inside: `model.module.state_dict()`, or of the model before `torch.compile`.

## When to ignore
When the names are rewritten in a way that cannot be seen here.

## References
- PyTorch, `torch.nn.parallel.DistributedDataParallel`; `torch.compile`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.states import text_of
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Dict, Known, Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="wrapper-prefix-in-checkpoint",
    code="CKP011",
    severity="error",
    confidence="likely",
    tags=("checkpoint", "distributed"),
)
_PREFIX = {
    "torch.nn.parallel.DistributedDataParallel": "module.",
    "torch.nn.parallel.DataParallel": "module.",
    "apex.parallel.DistributedDataParallel": "module.",
    "torch.compile": "_orig_mod.",
}

BAD = (
    """
import torch
from torch import nn
model = nn.DataParallel(nn.Linear(10, 2))
train(model)
torch.save(model.state_dict(), "model.pt")
final = nn.Linear(10, 2)
final.load_state_dict(torch.load("model.pt"))
""",
    """
import argparse, torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
parser = argparse.ArgumentParser()
parser.add_argument("--out", default="model.pt")
args = parser.parse_args()
class Keeper:
    def save(self, net, epoch):
        torch.save({"net": net.state_dict(), "epoch": epoch}, args.out)
    def load(self, net):
        state = torch.load(args.out)
        net.load_state_dict(state["net"])
plain = nn.Linear(10, 2)
net = DDP(plain, device_ids=[0])
keeper = Keeper()
keeper.save(net, 3)
keeper.load(plain)
""",
    """
import torch as t
net = t.nn.Linear(10, 2)
fast = t.compile(net)
path = "model.pt"
def keep():
    t.save(fast.state_dict(), path)
keep()
other = t.nn.Linear(10, 2)
other.load_state_dict(t.load(path), strict=False)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.DataParallel(nn.Linear(10, 2))
torch.save(model.module.state_dict(), "model.pt")
final = nn.Linear(10, 2)
final.load_state_dict(torch.load("model.pt"))
""",
    """
import torch
from torch import nn
model = nn.DataParallel(nn.Linear(10, 2))
torch.save(model.state_dict(), "model.pt")
final = nn.Linear(10, 2)
state = torch.load("model.pt")
final.load_state_dict({k.removeprefix("module."): v for k, v in state.items()})
model.load_state_dict(torch.load("model.pt"))
""",
    """
import torch
from torch import nn
model = nn.DataParallel(nn.Linear(10, 2))
torch.save(model.state_dict(), "parallel.pt")
final = nn.Linear(10, 2)
final.load_state_dict(torch.load("pretrained.pt"))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Follow saved states to where they are loaded."""
    saves = [s for e in context.trace.calls("torch.save") if not e.context.shadow for s in _saved(e)]
    if not saves:
        return
    for load in context.trace.calls(".load_state_dict"):
        holder = settle(load.receiver) if load.receiver is not None else None
        source = _read(load, context)
        if source is None or not isinstance(holder, Obj) or context.roles.of(holder) != "model" or load.context.shadow:
            continue
        path, key = source
        for wrapper, event, state, written, at in saves:
            if at == key and _one_path(path, written) and _PREFIX[wrapper.name] != _PREFIX.get(holder.name):
                yield _finding(context, load, event, state, wrapper, holder)
                break


def _saved(event: Event) -> Iterator[tuple[Obj, Event, Obj, Value, str | None]]:
    """Wrapper, call, state, path and key of the states of wrapped models that are saved."""
    path = event.argument(1, "f")
    if path is None or not event.args:
        return
    whole = settle(event.args[0])
    entries: dict[str | None, Value] = {None: whole}
    if isinstance(whole, Dict):
        entries = {str(k): settle(v) for k, v in whole.entries.items()}
    for key, value in entries.items():
        if isinstance(value, Obj) and value.name == ".state_dict" and value.receiver is not None:
            wrapper = settle(value.receiver)
            if isinstance(wrapper, Obj) and wrapper.kind == "call" and wrapper.name in _PREFIX:
                yield wrapper, event, value, path, key


def _read(load: Event, context: Context) -> tuple[Value, str | None] | None:
    """Path and key of what is loaded, where it comes straight from ``torch.load``."""
    value = settle(load.args[0]) if load.args else None
    key: str | None = None
    if isinstance(value, Obj) and value.kind == "item" and value.receiver is not None and value.args:
        name = settle(value.args[0])
        if not isinstance(name, Known):
            return None
        key, value = str(name.value), settle(value.receiver)
    if isinstance(value, Obj) and value.name == "torch.load" and value.args:
        return value.args[0], key
    return None


def _one_path(first: Value, second: Value) -> bool:
    text = text_of(first)
    return settle(first) is settle(second) or (text is not None and text == text_of(second))


def _finding(context: Context, load: Event, save: Event, state: Obj, wrapper: Obj, holder: Obj) -> Finding:
    prefix = _PREFIX[wrapper.name]
    silent = plain(load.kwargs.get("strict")) is False
    made = context.reading.event_of(state)
    edit = None
    if made is not None and prefix == "module." and hasattr(made.node, "func"):
        edit = context.replace(
            (made.script, made.node.func.value), made.script.segment(made.node.func.value) + ".module"
        )
    end = "nothing is loaded, without an error (strict=False)" if silent else "load_state_dict raises Missing key(s)"
    return context.finding(
        RULE,
        load,
        f"the checkpoint is saved from a model in {wrapper.name.rpartition('.')[2]}, so its names begin with {prefix}, "
        f"but this model is not wrapped: {end}",
        evidence=[
            Evidence("prefix of the saved names", prefix),
            Evidence("prefix of this model's names", _PREFIX.get(holder.name, "none")),
        ],
        fix=Fix(
            title="save the state of the model inside the wrapper",
            edits=edits(edit) if edit is not None else (),
            instruction="save model.module.state_dict() (or that of the model before torch.compile)",
            expected="the names fit any model",
        ),
        related=[(save, "the wrapped model's state is saved here")],
    )
