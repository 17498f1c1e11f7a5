"""A module assigns layers before `super().__init__()`.

## What it does
Reports a subclass of `nn.Module` whose `__init__` assigns layers or parameters without calling the constructor of its base first.

## Why
The base makes the tables that layers are registered in.
Without it the script stops where the model is made: "cannot assign module before Module.__init__() call".

## Fix
Call `super().__init__()` in the first line of `__init__`.

## When to ignore
Never.

## References
- PyTorch documentation of Module
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Store
from preflight.source.values import Func, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="module-not-initialised", code="MOD010", severity="error", confidence="certain", layer="D", tags=("modules",)
)

BAD = (
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        return self.fc(x)
net = Net()
""",
    """
import torch
class Net(torch.nn.Module):
    def __init__(self, width):
        self.scale = torch.nn.Parameter(torch.ones(width))
        super(Net, self).__init__()
    def forward(self, x):
        return x * self.scale
def build(width=8):
    return Net(width)
net = build()
""",
    """
import argparse
from torch.nn import Module, Linear
p = argparse.ArgumentParser()
p.add_argument("--n", type=int, default=3)
args = p.parse_args()
class Base(Module):
    def build(self):
        self.fc = Linear(8, args.n)
class Net(Base):
    def __init__(self):
        self.width = 3
        self.build()
net = Net()
""",
)

GOOD = (
    """
import torch.nn as nn
class Base(nn.Module):
    def __init__(self, width):
        nn.Module.__init__(self)
        self.width = width
class Net(Base):
    def __init__(self):
        self.depth = 3
        super().__init__(8)
        self.fc = nn.Linear(8, 2)
net = Net()
""",
    """
import torch.nn as nn
class Wrapper:
    def __init__(self):
        self.net = nn.Linear(8, 2)
class Plain(nn.Module):
    def forward(self, x):
        return x
w, p = Wrapper(), Plain()
""",
    """
import torch
from torch import nn
from timm.models.vision_transformer import VisionTransformer
class Fixed(VisionTransformer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.place()
    def place(self):
        self.pos_embed = nn.Parameter(torch.zeros(1, 197, self.embed_dim), requires_grad=False)
model = Fixed(patch_size=16, embed_dim=384, depth=2, num_heads=6)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for layers that are assigned before the base was constructed."""
    done: set[int] = set()
    first: dict[int, int] = {}
    for event in context.trace.calls(".super.__init__", "torch.nn.Module.__init__"):
        owner = settle(event.receiver or event.args[0]) if event.receiver is not None or event.args else None
        if owner is not None:
            first.setdefault(id(owner), event.number)
    for event in context.trace.events:
        if event.name.endswith(".__init__") and event.args:
            owner = settle(event.args[0])
            if not event.inlined or (isinstance(owner, Obj) and _of_library(owner, event.name)):
                first.setdefault(id(owner), event.number)
    for store in context.trace.stores:
        owner = settle(store.target)
        if not isinstance(owner, Obj) or owner.cls is None or id(owner) in done or not is_module(owner):
            continue
        if not _is_registered_kind(store) or first.get(id(owner), 10**9) < store.number:
            continue
        init = owner.cls.lookup("__init__")
        if not isinstance(init, Func) or owner.kind != "instance" or not _in_call_of(store, init):
            continue
        done.add(id(owner))
        late = id(owner) in first
        yield context.finding(
            RULE,
            store,
            f"{owner.cls.qualname} assigns self.{store.name} before super().__init__(): making the model stops here",
            evidence=[Evidence("super().__init__()", "called later" if late else "never called")],
            fix=Fix(
                title="call super().__init__() first",
                edits=edits(context.insert_before((store.script, init.node.body[0]), "super().__init__()"))
                if not late and store.script is init.module.script and isinstance(init.node.body, list)
                else (),
                instruction="make super().__init__() the first line of __init__",
                expected="the model can be made",
            ),
        )


def _of_library(owner: Obj, name: str) -> bool:
    """Whether a constructor that was followed is that of a library's network, of which only a drawing is read."""
    lineage = owner.cls.lineage if owner.cls is not None else ()
    return any(c.module.script.drawing and name == f"{c.qualname}.__init__" for c in lineage)


def _is_registered_kind(store: Store) -> bool:
    value = settle(store.value)
    return is_module(value) or (
        isinstance(value, Obj) and value.name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
    )


def _in_call_of(store: Store, init: Func) -> bool:
    return any(f.kind == "call" and f.value is init for f in store.context.frames())
