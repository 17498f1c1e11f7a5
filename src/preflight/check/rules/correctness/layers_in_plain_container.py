"""Layers are kept in a Python list or dictionary.

## What it does
Looks for modules that a module makes, keeps in a plain list, tuple or dictionary as an attribute, and calls, without registering them in any other way.

## Why
`parameters()`, `to()`, `state_dict()`, `train()` and DDP only see what is registered.
Layers in a plain list are not trained, stay on the CPU when the model moves to the GPU, and are missing from the checkpoint.

## Fix
Use `nn.ModuleList` or `nn.ModuleDict`.

## When to ignore
When a frozen module is hidden from `parameters()` on purpose.

## References
- PyTorch documentation of ModuleList
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.placement import model_on_gpu
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Store, provenance
from preflight.source.values import Dict, Obj, Seq, Value, options_of, plain, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="layers-in-plain-container",
    code="MOD003",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("modules",),
)

BAD = (
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(8, 8) for _ in range(4)]
        self.out = nn.Linear(8, 2)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)
net = Net()
for x, y in loader:
    nn.functional.cross_entropy(net(x), y).backward()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--depth", type=int, default=6)
args = p.parse_args()
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
    def forward(self, x):
        return x + self.fc(x)
class Net(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = []
        for i in range(depth):
            self.blocks.append(Block())
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
net = Net(args.depth)
for x, y in loader:
    torch.nn.functional.mse_loss(net(x), y).backward()
""",
    """
from torch import nn
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = {"age": nn.Linear(8, 1), "sex": nn.Linear(8, 2)}
    def run(self, name, x):
        return self.heads[name](x)
    def forward(self, x):
        return self.run("age", x), self.run("sex", x)
net = Heads()
for x, y in loader:
    a, b = net(x)
    (nn.functional.mse_loss(a, y) + nn.functional.cross_entropy(b, y)).backward()
""",
)

GOOD = (
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        for i in range(4):
            layer = nn.Linear(8, 8)
            self.add_module(f"layer{i}", layer)
            self.layers.append(layer)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
net = Net()
for x, y in loader:
    nn.functional.mse_loss(net(x), y).backward()
""",
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self, teacher):
        super().__init__()
        self.teacher = [teacher]
        layers = [nn.Linear(8, 8), nn.ReLU()]
        self.body = nn.Sequential(*layers)
    def forward(self, x):
        return self.body(x), self.teacher[0](x)
net = Net(nn.Linear(8, 8))
for x in loader:
    a, b = net(x)
    nn.functional.mse_loss(a, b.detach()).backward()
""",
    """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.order = [self.a, self.b]
        self.acts = {"relu": nn.ReLU(), "gelu": nn.GELU()}
    def forward(self, x):
        for layer in self.order:
            x = self.acts["relu"](layer(x))
        return x
net = Net()
for x, y in loader:
    nn.functional.mse_loss(net(x), y).backward()
""",
    """
import torch
import torch.nn as nn
class Student(nn.Module):
    def __init__(self, device):
        super().__init__()
        teacher = nn.Linear(10, 10)
        teacher.requires_grad_(False).eval().to(device)
        self.hidden = [teacher]
        self.layer = nn.Linear(10, 10)
    def forward(self, x):
        return self.layer(x), self.hidden[0](x)
Student("cuda").cuda()(torch.zeros(1, 10))
""",
)

_WITHOUT_PARAMETERS = (
    "Dropout", "ReLU", "GELU", "SiLU", "ELU", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Pool", "Pad", "Flatten", "Identity", "Loss",
    "Upsample", "Softplus", "Mish", "Shuffle", "Hard", "Threshold", "Fold", "Similarity", "Distance", "SELU", "CELU", "LogSigmoid",
)  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Look for containers of layers among the attributes of modules."""
    called: set[int] | None = None
    for store in context.trace.stores:
        kept = settle(store.value)
        owner = settle(store.target)
        if not isinstance(kept, (Seq, Dict)) or not isinstance(owner, Obj) or owner.cls is None or not is_module(owner):
            continue
        layers = [i for i in _items(kept) if _has_parameters(i) and _made_inside(i, store)]
        if not layers or store.name.startswith("[") or settle(owner.attrs.get(store.name, kept)) is not kept:
            continue
        if called is None:
            called = {id(o) for e in context.trace.calls("()") for o in options_of(e.receiver)}
            called |= {id(o.receiver) for o in _copies(context, called)}
        used = [i for i in layers if id(i) in called or (isinstance(i, Obj) and id(i.receiver) in called)]
        registered = _registered(context, owner, store)
        loose = [i for i in used if id(i) not in registered and not _hidden(context, i)]
        if not loose or _parameters_taken(context, kept, loose):
            continue
        yield _report(context, store, kept, len(layers))


def _items(kept: Seq | Dict) -> list[Value]:
    return [settle(i) for i in (kept.items if isinstance(kept, Seq) else kept.entries.values())]


def _copies(context: Context, called: set[int]) -> list[Obj]:
    return [
        o for e in context.trace.calls("()") for o in options_of(e.receiver) if isinstance(o, Obj) and o.kind == "copy"
    ]


def _has_parameters(value: Value, depth: int = 0) -> bool:
    """Whether a layer has parameters of its own to train."""
    if not isinstance(value, Obj) or not is_module(value) or depth > 6:
        return False
    if value.cls is not None:
        return any(
            _has_parameters(settle(v), depth + 1) or getattr(settle(v), "name", "") == "torch.nn.Parameter"
            for v in value.attrs.values()
        )
    if value.name in ("torch.nn.Sequential", "torch.nn.ModuleList"):
        return any(_has_parameters(settle(a), depth + 1) for a in value.args)
    return value.name.startswith("torch.nn.") and not any(part in value.name for part in _WITHOUT_PARAMETERS)


def _made_inside(value: Value, store: Store) -> bool:
    """Whether the layer was made by the module's own code, not handed to it."""
    frame = next((f for f in store.context.frames() if f.kind == "call"), None)
    return isinstance(value, Obj) and frame is not None and value.context is not None and value.context.within(frame)


def _registered(context: Context, owner: Obj, store: Store) -> set[int]:
    """Ids of the modules that are registered: attributes, parts of registered containers, add_module, setattr."""
    found: set[int] = set()
    stack = [settle(v) for name, v in owner.attrs.items() if name != store.name]
    stack = [v for v in stack if isinstance(v, Obj)]
    for event in context.trace.calls(".add_module", ".register_module", "builtins.setattr"):
        stack.extend(settle(a) for a in (*event.args, *event.kwargs.values()))
    for event in context.trace.calls(".append", ".extend", ".insert", ".update", ".__setitem__"):
        if is_module(event.receiver):
            stack.extend(settle(a) for a in event.args)
    while stack:
        value = stack.pop()
        if id(value) in found:
            continue
        found.add(id(value))
        if isinstance(value, Obj) and (value.name.startswith("torch.nn.") or is_module(value)):
            stack.extend(settle(v) for v in (*value.args, *value.kwargs.values(), *value.attrs.values()))
        elif isinstance(value, (Seq, Dict)):
            stack.extend(_items(value))
    return found


def _hidden(context: Context, layer: Value) -> bool:
    """Whether a layer is frozen, and moved by hand where the model moves: kept out of ``parameters()`` on purpose."""
    own = context.trace.on(layer, "requires_grad_", "to", "cuda") if isinstance(layer, Obj) else []
    frozen = any(e.name == ".requires_grad_" and plain(e.argument(0, "requires_grad"), True) is False for e in own)
    return frozen and (not model_on_gpu(context) or any(e.name != ".requires_grad_" for e in own))


def _parameters_taken(context: Context, kept: Value, loose: list[Value]) -> bool:
    """Whether the script asks the layers themselves for their parameters: they are trained after all."""
    wanted = {id(i) for i in loose} | {id(i.receiver) for i in loose if isinstance(i, Obj) and i.kind == "copy"}
    for event in context.trace.calls(".parameters", ".named_parameters", ".state_dict"):
        for option in options_of(event.receiver):
            if id(option) in wanted or any(p is kept for p in provenance(option, 12)):
                return True
    return False


def _report(context: Context, store: Store, kept: Seq | Dict, count: int) -> Finding:
    kind = "ModuleDict" if isinstance(kept, Dict) else "ModuleList"
    plain_kind = "dictionary" if isinstance(kept, Dict) else kept.kind if isinstance(kept, Seq) else "container"
    edit = _edit(context, store, kept, kind)
    return context.finding(
        RULE,
        store,
        f"self.{store.name} keeps {count} layer{'s' if count > 1 else ''} in a plain {plain_kind}: "
        "parameters(), to() and state_dict() do not see them, so they are not trained, moved or saved",
        evidence=[Evidence("layers in the container", count), Evidence("container", plain_kind)],
        fix=Fix(
            title=f"use nn.{kind}",
            edits=edits(edit),
            instruction=f"wrap it: self.{store.name} = nn.{kind}(...)",
            expected="the layers are part of the model's parameters",
        ),
    )


def _edit(context: Context, store: Store, kept: Seq | Dict, kind: str) -> Edit | None:
    """Wrap the right side, where ``nn`` or ``torch`` is a name of the module."""
    node = store.node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Attribute):
        return None
    names = {
        a.asname or a.name
        for n in store.script.tree.body
        if isinstance(n, (ast.Import, ast.ImportFrom))
        for a in n.names
    }
    prefix = "nn." if "nn" in names else "torch.nn." if "torch" in names else None
    text = store.script.segment(node.value)
    if prefix is None or not text or "#" in text or (isinstance(kept, Seq) and kept.kind == "set"):
        return None
    return context.replace(
        (store.script, node.value), f"{prefix}{kind}({text})" if text != "[]" else f"{prefix}{kind}()"
    )
