"""All parameters of an optimizer are frozen.

## What it does
Finds an optimizer that steps, or is handed to what may step it, while all its parameters are frozen and never thawed; in a dry run, one that steps again and again while none of its parameters requires a gradient.

## Why
A parameter with `requires_grad=False` gets no gradient, and an optimizer skips it without a word.
The loss may still go down a little, where another part of the model learns; what this optimizer holds stays as it was.
The usual cause is a freezing that hits more than it was meant to: a loop over all parameters, a call on the wrong module, or an unfreezing that never happens.

## Fix
Unfreeze what is to be trained before the step: `module.requires_grad_(True)`; or leave the optimizer out.

## When to ignore
When the parameters are unfrozen later, by code that was not followed or that the dry run did not get to.

## References
- PyTorch, "Autograd mechanics": setting `requires_grad`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.handed_on import STEPS_NOTHING, handed_on
from preflight.check.queries.parameters import holding_of
from preflight.check.queries.updates import managed
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.frozen import OTHER_WAYS, changes, frozen_layers, owner_of
from preflight.source.layers import Network
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.values import Known, Obj, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-over-frozen-parameters",
    code="OPT020",
    severity="error",
    confidence="likely",
    needs=("optimizer", "complete"),
    layer="D",
    tags=("optimizer",),
)

_LOOP = """
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
"""

BAD = (
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
for p in net.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.body(x))
net = Net().requires_grad_(False)
optimizer = torch.optim.SGD(net.head.parameters(), lr=0.1)
"""
    + _LOOP,
    """
import argparse, torch
from torchvision.models import resnet18
p = argparse.ArgumentParser()
p.add_argument("--classes", type=int, default=10)
args = p.parse_args()
net = resnet18()
net.fc = torch.nn.Linear(512, args.classes)
for parameter in net.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
"""
    + _LOOP,
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body, self.head = nn.Linear(width, width), nn.Linear(width, classes)
    def forward(self, x):
        return self.head(self.body(x))
def main(data):
    if not data:
        return
    net = Net(data.width, len(data.names))
    optimizer = torch.optim.Adam(net.parameters())
    for parameter in net.parameters():
        parameter.requires_grad = False
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
main(read())
""",
)

GOOD = (
    """
import torch, adapters
from torch import nn
class Tuned(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Linear(width, width)
        for p in self.parameters():
            p.requires_grad = False
        self.head = adapters.make_head(width, classes)
    def forward(self, x):
        return self.head(self.body(x))
class Prompted(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Linear(width, classes)
        for p in self.parameters():
            p.requires_grad = False
        self.prompts = nn.ParameterDict({"first": nn.Parameter(torch.zeros(classes))})
    def forward(self, x):
        return self.body(x) + self.prompts["first"]
class Named(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Linear(width, width)
        for p in self.parameters():
            p.requires_grad = False
        for i in range(classes):
            setattr(self, f"head{i}", nn.Linear(width, 2))
    def forward(self, x):
        return self.head0(self.body(x))
def fit_tuned(data):
    net = Tuned(data.width, data.classes)
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
def fit_prompted(data):
    net = Prompted(data.width, data.classes)
    optimizer = torch.optim.Adam([*net.parameters()])
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
def fit_named(data):
    net = Named(data.width, data.classes)
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
fit_tuned(read())
fit_prompted(read())
fit_named(read())
""",
    """
import torch
from torch import nn
from torch.nn.utils import parametrize
class Turned(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.turn = nn.Parameter(torch.eye(width))
    def forward(self, weight):
        return weight @ self.turn
def main(data):
    net = nn.Linear(data.width, data.classes)
    net.requires_grad_(False)
    parametrize.register_parametrization(net, "weight", Turned(data.width))
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
main(read())
""",
    """
import torch
from adapters import make_head
from torch import nn
from torch.nn.utils import parametrize
class Turned(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.turn = nn.Parameter(torch.eye(width))
    def forward(self, weight):
        return weight @ self.turn
def main(data):
    net = nn.Linear(8, 2)
    net.requires_grad_(False)
    parametrize.register_parametrization(net, "weight", Turned(8))
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        for p in self.parameters():
            p.requires_grad = False
        self.head = make_head(8, 2)
    def forward(self, x):
        return self.head(self.body(x))
def fit_tuned(data):
    net = Tuned()
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
main(read())
fit_tuned(read())
""",
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
for p in net.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    noise = [torch.randn_like(p) for p in net.parameters()]
    gain = reward_of(net, noise)
    for p, shift in zip(net.parameters(), noise):
        p.grad = -gain * shift
    optimizer.step()
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
    def thaw(self):
        self.layers.apply(lambda layer: [p.requires_grad_() for p in layer.parameters()])
def with_new_layer(data):
    net = Net(data.width, data.depth)
    net.requires_grad_(False)
    net.layers.append(nn.Linear(data.width, 3))
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
with_new_layer(read())
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body, self.head = nn.Linear(width, width), nn.Linear(width, classes)
    def forward(self, x):
        return self.head(self.body(x))
    def thaw(self):
        for p in self.head.parameters():
            p.requires_grad = True
def thawed_later(data, schedule):
    net = Net(data.width, data.classes)
    net.requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters())
    schedule.at(5, net.thaw)
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        schedule.tick()
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
def with_shift(data):
    net = Net(data.width, data.classes)
    net.requires_grad_(False)
    net.shift = nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x) + net.shift, y).backward()
        optimizer.step()
thawed_later(read(), plan())
with_shift(read())
""",
    """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body, self.head = nn.Linear(width, width), nn.Linear(width, classes)
    def forward(self, x):
        return self.head(self.body(x))
def fit(net, data):
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
def new_head(data):
    net = Net(data.width, 1000)
    for parameter in net.parameters():
        parameter.requires_grad = False
    net.head = nn.Linear(data.width, len(data.names))
    fit(net, data)
def asked(data, frozen):
    net = Net(data.width, 10)
    if frozen:
        for parameter in net.parameters():
            parameter.requires_grad = False
        net.requires_grad_(data.thawed)
    fit(net, data)
new_head(read())
asked(read(), read())
""",
    """
import torch
from dataclasses import dataclass
@dataclass
class Config:
    train: bool = False
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(net.parameters())
def main(config: Config):
    if not config.train:
        net.requires_grad_(False)
    else:
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
    for x in test_loader:
        print(net(x).argmax(1))
main(Config())
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--train", action="store_true")
parser.add_argument("--epochs", type=int, default=0)
args = parser.parse_args()
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(net.parameters())
trains = args.train and args.epochs > 0
net.requires_grad_(trains)
if trains:
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["train", "test"], default="test")
args = parser.parse_args()
net = torch.nn.Linear(8, 2)
if args.mode == "test":
    net.requires_grad_(False)
optimizer = torch.optim.Adam(net.parameters())
if args.mode == "train":
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
""",
    """
import torch
from torchvision.models import resnet18
net = resnet18()
for parameter in net.parameters():
    parameter.requires_grad = False
net.fc = torch.nn.Linear(512, 10)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
"""
    + _LOOP,
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2))
net.requires_grad_(False)
net[1].requires_grad_(True)
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import copy, torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2))
average = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2))
for name, p in net.named_parameters():
    p.requires_grad = name in chosen
optimizer = torch.optim.Adam(net.parameters())
"""
    + _LOOP,
    """
import torch
def fit(net, wanted):
    optimizer = torch.optim.Adam(net.parameters())
    for x in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), wanted(x)).backward()
        optimizer.step()
    return net.eval().requires_grad_(False)  # it is a teacher from here on
teacher = fit(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 2)), label)
student = fit(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2)), teacher)
""",
)


_PUTTING_IN = frozenset("append extend insert add_module register_module register_parameter set_submodule".split())

_REBUILDING = ("torch.nn.utils.parametriz", "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm")
"""How the names of calls begin that give a module new parameters in the place of its own."""


def check(context: Context) -> Iterator[Finding]:
    """Find optimizers over nothing but layers that are frozen for good."""
    for optimizer in context.reading.made("optimizer"):
        made = context.reading.event_of(optimizer)
        parts = holding_of(context.reading, optimizer).parts
        if made is None or made.context.shadow or not parts:
            continue
        first = _first_step(context, optimizer)
        if first is None and not _steps_elsewhere(context, optimizer):
            continue  # where no training is reached, nothing is lost by what is frozen
        if not all(part.amount == "all" and _frozen(context, part.owner, first, made.context) for part in parts):
            continue
        if any(store.name == "grad" for store in context.trace.stores) or _written_elsewhere(context):
            continue  # what is given gradients by hand is trained, and what is not followed may thaw
        sizes = [Network(context.reading, part.owner).total for part in parts]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        yield context.finding(
            RULE,
            made,
            f"all {f'{total:,} ' if total else ''}parameters that the optimizer is given are frozen: nothing is trained",
            evidence=[
                Evidence("parameters that require a gradient", 0),
                Evidence("parameters of the optimizer", "not known" if total is None else total),
            ],
            fix=Fix(
                title="unfreeze what is to be trained",
                instruction="call requires_grad_(True) on the modules that this optimizer is for, or freeze fewer",
                expected="the optimizer finds gradients",
            ),
        )


def _first_step(context: Context, optimizer: Obj) -> int | None:
    """The place of an optimizer's first step in the order of things: what is frozen after it was trained before."""
    steps = (
        e
        for e in context.trace.calls(".step")
        if not e.context.shadow and any(o is optimizer for v in (e.receiver, *e.args) if v for o in options_of(v))
    )
    return next((e.number for e in steps), None)


def _steps_elsewhere(context: Context, optimizer: Obj) -> bool:
    """Whether a framework, or code that was not followed, may step an optimizer."""
    made = context.reading.made
    return (
        bool(made("lightning_trainer") or made("trainer"))
        or managed(context)
        or handed_on(context, optimizer, STEPS_NOTHING, (".append", ".zero_grad"))
    )


def _written_elsewhere(context: Context) -> bool:
    """Whether a script freezes or thaws in a place that was not followed, as a method that is handed to a schedule."""
    events = [event.node for event in context.trace.calls(".requires_grad_")]
    stores = [store.node for store in context.trace.stores if store.name == "requires_grad"]
    followed = {id(part) for node in (*events, *stores) if node is not None for part in ast.walk(node)}
    for script in context.reading.scripts:
        for node in script.nodes(ast.Attribute):
            thaws = node.attr == "requires_grad_" or (node.attr == "requires_grad" and isinstance(node.ctx, ast.Store))
            if thaws and id(node) not in followed:
                return True
        if any(node.value == "requires_grad" for node in script.nodes(ast.Constant)):
            return True
    return False


def _frozen(context: Context, owner: Obj, until: int | None, made: Frame) -> bool:
    """Whether the parameters of a module are all frozen by then."""
    network = Network(context.reading, owner)
    if any(not leaf.obj.name.startswith("torch.nn.") for leaf in network.leaves):
        return False  # a network that is known as a whole may have been given layers that were not seen
    if not network.total:
        return _frozen_as_one(context, owner, until, made)
    frozen = frozen_layers(context.reading, network, until)
    if not frozen.certain or frozen.parameters != network.total:
        return False
    places = [c.number for c in changes(context.reading) if owner_of(c.target) is owner and c.wanted is False]
    return not places or not _comes_later(context, owner, places[0])


def _frozen_as_one(context: Context, owner: Obj, until: int | None, made: Frame) -> bool:
    """Whether all of a module of unknown size is frozen at once, and nothing is ever thawed or put in afterwards."""
    every = changes(context.reading)
    if context.trace.calls(*OTHER_WAYS) or any(change.wanted is not False for change in every):
        return False
    at = next((c.number for c in every if owner_of(c.target) is owner and _always(c.context, made)), None)
    if at is None or (until is not None and at > until):
        return False
    return not _comes_later(context, owner, at)


def _comes_later(context: Context, owner: Obj, at: int) -> bool:
    """Whether something that may be trained is put into a module after a place in the order of things."""
    for store in context.trace.stores:
        target = settle(store.target)
        into = isinstance(target, Obj) and is_module(target) and not isinstance(settle(store.value), Known)
        if store.number > at and (into or _is_trained(store.value)):
            return True
    return any(event.number > at and (_puts_in(event) or _hands_over(event, owner)) for event in context.trace.events)


def _hands_over(event: Event, owner: Obj) -> bool:
    """Whether code that was not followed is given a module."""
    if event.inlined or event.name.startswith(("torch.", "builtins.", ".")):
        return False
    return any(settle(given) is owner for given in (*event.args, *event.kwargs.values()))


def _puts_in(event: Event) -> bool:
    """Whether something that may be trained is put into a module or a list of modules."""
    if event.name == "builtins.setattr" or event.name.startswith(_REBUILDING):
        return True
    return event.name.rpartition(".")[2] in _PUTTING_IN and any(
        _is_trained(given) for given in (*event.args, *event.kwargs.values())
    )


def _is_trained(value: Value) -> bool:
    held = settle(value)
    return isinstance(held, Obj) and (is_module(held) or held.name == "torch.nn.Parameter")


def _always(place: Frame, made: Frame) -> bool:
    """Whether a place is reached wherever the optimizer is made, whatever else is tested."""
    asked = {(id(frame.node), frame.polarity) for frame in made.frames() if frame.kind == "if"}
    return not place.shadow and all(
        frame.kind != "except"
        and (frame.kind != "if" or frame.taken is True or (id(frame.node), frame.polarity) in asked)
        for frame in place.frames()
    )
