"""A part of the model that is in the loss is held by no optimizer.

## What it does
Looks for a layer that was put into the model after its optimizer was built, and for a freshly made module that the loss depends on and that no optimizer holds.

## Why
An optimizer keeps the list of parameters it was given.
What comes later gets gradients and never moves: a new head stays random, and the rest of the model learns to work around it.

## Fix
Build the optimizer last, or give it the new parameters with `add_param_group`.

The second is told as an error only where what is trained feeds it: a layer below may be there for random features, as a reservoir is.
Where the script also freezes, loads or copies weights somewhere, it is told as a warning, too: it may be meant.

## When to ignore
When the module is a fixed random projection on purpose; set `requires_grad_(False)` to say so.

## References
- PyTorch documentation, `torch.optim.Optimizer.add_param_group`
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import graph
from preflight.check.queries.parameters import Holding, holding_of, parts_of
from preflight.check.queries.updates import managed, updates
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Store, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="parameters-without-optimizer",
    code="OPT003",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer", "complete"),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
import torchvision
from torch import nn
model = torchvision.models.resnet18(weights="DEFAULT")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.fc = nn.Linear(512, 10)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
from torch.optim import AdamW as Opt
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
    def add_head(self, classes):
        self.head = nn.Linear(4, classes)
    def forward(self, x):
        return self.head(self.body(x))
net = Net()
opt = Opt(net.parameters())
net.add_head(3)
for x, y in loader:
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
""",
    """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--classes", type=int, default=10)
args = parser.parse_args()
encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
head = nn.Linear(8, args.classes)
optimizer = torch.optim.Adam(encoder.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(encoder(x)), y).backward()
    optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(4, 8), requires_grad=True)
        self.scale = nn.init.xavier_uniform_(self.scale)
    def forward(self, x):
        return x @ self.scale.t()
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()
""",
    """
import torch
import torchvision
from torch import nn
model = torchvision.models.resnet18(weights="DEFAULT")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.fc = nn.Linear(512, 10)
optimizer.add_param_group({"params": model.fc.parameters()})
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
encoder, head = nn.Linear(8, 8), nn.Linear(8, 2)
for p in encoder.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(head.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(encoder(x)), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
D.load_state_dict(torch.load("d.pt", weights_only=True))
optimizer = torch.optim.Adam(G.parameters())
for x in data:
    optimizer.zero_grad()
    D(G(x)).mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
net, norm, loss = nn.Linear(8, 8), nn.ReLU(), nn.MSELoss()
optimizer = torch.optim.Adam(net.parameters())
for x in data:
    optimizer.zero_grad()
    loss(norm(net(x)), x).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.heads = nn.ModuleDict()
    def forward(self, x, task="first"):
        x = self.body(x)
        if task not in self.heads:
            self.heads[task] = nn.Linear(x.size(-1), 2)
        return self.heads[task](x)
model = Net()
model(torch.zeros(1, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.source = nn.Parameter(torch.randn(8, 8).to(device)).to(device)
        self.out = nn.Linear(8, 1)
    def forward(self, x):
        return self.out(x @ self.source)
net = Net(torch.device("cuda"))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, domains=2):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(8, 8))
        self.shared += nn.Sequential(nn.ReLU(), nn.Linear(8, 4))
        self.heads = nn.ModuleList()
        for _ in range(domains):
            self.heads += [nn.Linear(4, 1)]
    def forward(self, x):
        x = self.shared(x)
        return torch.stack([head(x) for head in self.heads])
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()
""",
)

_WEIGHTED = frozenset(
    f"torch.nn.{n}"
    for n in (
        "Linear",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
        "Embedding",
        "EmbeddingBag",
        "LSTM",
        "GRU",
        "RNN",
        "LSTMCell",
        "GRUCell",
        "Bilinear",
        "MultiheadAttention",
        "TransformerEncoderLayer",
        "TransformerDecoderLayer",
        "Parameter",
    )
)
_MEANT = re.compile(
    r"freez|frozen|fixed|untrained|random|reservoir|random_feat|probe|pretrain|checkpoint|ckpt", re.IGNORECASE
)
"""Words of texts in which something may be left as it is on purpose, or come from elsewhere."""
_OTHERWISE = frozenset(
    {"grad", "data", "copy_", "lerp_", "add_", "sub_", "mul_", "set_", "requires_grad", "requires_grad_", "detach"}
    | {"load_state_dict", "from_pretrained", "load", "hub", "vector_to_parameters", "functional_call"}
)
_FUNCTIONS = frozenset({"setattr", "vector_to_parameters", "functional_call", "load_state_dict", "load_model"})
"""Names by which weights are brought on in other ways, come from elsewhere, or are kept."""
_FROZEN = (".eval", ".requires_grad_", ".load_state_dict", ".load", ".load_weights", ".freeze")


def check(context: Context) -> Iterator[Finding]:
    """Look for layers that came too late, then for modules that no optimizer holds."""
    optimizers = context.reading.made("optimizer")
    holdings = [holding_of(context.reading, o) for o in optimizers]
    late = {id(s.value): s for s in _late(context)}
    for store in late.values():
        yield _finding(
            context,
            store,
            "a layer is put into the model after the optimizer was built: it gets gradients and is never updated",
            "error",
        )
    if late or managed(context) or not all(h.firm for h in holdings) or context.trace.calls(".manual_backward"):
        return
    for loop in context.reading.loops:
        if loop.steps and not loop.backwards[0].context.shadow:
            found, fed = _unheld(context, loop, holdings)
            if found is not None:
                text = "the loss depends on a module with fresh weights that no optimizer holds: it is never updated"
                yield _finding(context, found, text, "error" if fed and _plain(context) else "warning")
                return


def _plain(context: Context) -> bool:
    """Whether no line could load, freeze or bring on weights in another way than by an optimizer."""
    for script in context.reading.scripts:
        said = {node.attr for node in script.nodes(ast.Attribute)} & _OTHERWISE
        called = {node.id for node in script.nodes(ast.Name)} & _FUNCTIONS
        if _MEANT.search(script.text) or said or called:
            return False
    return True


def _finding(context: Context, place: Store | Obj, text: str, severity: str) -> Finding:
    """Point at what came too late; of what was left out, at the one optimizer that should hold it."""
    optimizers = context.reading.made("optimizer")
    optimizer, left_out = optimizers[0], isinstance(place, Obj)
    at_optimizer = left_out and len(optimizers) == 1
    return context.finding(
        RULE,
        optimizer if at_optimizer else place,
        text,
        severity="error" if severity == "error" else "warning",
        evidence=[
            Evidence("optimizers that hold it", 0),
            Evidence("optimizers in the script", len(optimizers)),
        ],
        fix=Fix(
            title="give its parameters to the optimizer",
            safe=False,
            instruction="build the optimizer after it, from all parameters that are to be trained, or call add_param_group",
            expected="it is trained with the rest",
        ),
        related=[(place, "the module is made here") if at_optimizer else (optimizer, "the optimizer is made here")],
    )


def _late(context: Context) -> Iterator[Store]:
    """Layers that are put into what an optimizer holds as a whole, after it was built and before it steps."""
    for update in updates(context):
        made = context.reading.event_of(update.optimizer)
        if made is None or context.trace.on(update.optimizer, "add_param_group") or update.steps[0].context.shadow:
            continue
        owners = [p.owner for p in update.holding.parts if p.amount != "some"]
        inside = {i for o in owners for i in parts_of(o)}
        for store in context.trace.stores:
            value = settle(store.value)
            if (
                not made.number < store.number < update.steps[0].number
                or store.context.shadow
                or not isinstance(value, Obj)
            ):
                continue
            target = settle(store.target)
            fresh = is_module(value) and made.number < value.number and value.kind in ("call", "instance")
            if (
                fresh
                and id(target) in inside
                and _weights(value)
                and _owner_unchanged(context, update.optimizer, store)
                and not any(s.node is store.node and s.number < made.number for s in context.trace.stores)
            ):
                yield store


def _owner_unchanged(context: Context, optimizer: Obj, store: Store) -> bool:
    """No second optimizer is built after the layer."""
    later = [o for o in context.reading.made("optimizer") if o is not optimizer and o.number > store.number]
    return not later


def _weights(module: Obj) -> bool:
    return any(part.name in _WEIGHTED and part.kind in ("call", "copy") for part in parts_of(module).values())


def _unheld(context: Context, loop: TrainingLoop, holdings: list[Holding]) -> tuple[Obj | None, bool]:
    """A module that no optimizer holds, and whether what one holds feeds it."""
    held = {i for h in holdings for i in h.members}
    known = False
    found: Obj | None = None
    fed = False
    frozen = _frozen(context) | _moved(context)
    for loss in loop.losses():
        for value in graph(loss):
            if not isinstance(value, Obj):
                continue
            holder = settle(value.receiver) if value.name == "()" and value.receiver is not None else value
            if id(holder) in held:
                known = True
            elif (
                isinstance(holder, Obj)
                and holder.name in _WEIGHTED
                and holder.kind == "call"
                and holder.cls is None
                and id(holder) not in frozen
            ):
                fed = fed if found is not None else _is_fed(value, held)
                found = found or holder
    return (found if known else None), fed


def _is_fed(call: Obj, held: set[int]) -> bool:
    """Whether a module is given what a module gave that an optimizer holds."""
    parts = (part for argument in call.args for part in provenance(argument, 200))
    calls = (part for part in parts if isinstance(part, Obj) and part.name == "()" and part.receiver is not None)
    return any(id(settle(part.receiver)) in held for part in calls if part.receiver is not None)


def _moved(context: Context) -> set[int]:
    """Parameters that a module holds as what moving them gave: where that is the parameter itself, it is held like any other."""
    values = (settle(store.value) for store in context.trace.stores)
    moves = (v for v in values if isinstance(v, Obj) and v.kind == "call" and v.name in (".to", ".cuda"))
    return {id(settle(move.receiver)) for move in moves if move.receiver is not None}


def _frozen(context: Context) -> set[int]:
    """Modules that are not to be trained, or that come with weights: by what is called on them or set in them."""
    found: set[int] = set()
    for event in context.trace.calls(*_FROZEN):
        base = settle(event.receiver) if event.receiver is not None else None
        if isinstance(base, Obj) and is_module(base):
            given = event.argument(0, "requires_grad")
            on = settle(given) if given is not None else None
            if event.name == ".requires_grad_" and (given is None or (isinstance(on, Known) and on.value)):
                continue
            if event.name == ".eval" and any(f.kind == "loop" for f in event.context.frames()):
                continue
            found |= parts_of(base).keys()
    for store in context.trace.stores:
        if store.name == "requires_grad":
            for part in provenance(store.target, 30):
                if isinstance(part, Obj) and is_module(part):
                    found |= parts_of(part).keys()
    for event in context.trace.events:
        if event.inlined or event.name.startswith((".", "builtins.", "torch.")) or event.name == "()":
            continue
        for argument in (*event.args, *event.kwargs.values()):
            base = settle(argument)
            if isinstance(base, Obj) and is_module(base):
                found |= parts_of(base).keys()
    return found
