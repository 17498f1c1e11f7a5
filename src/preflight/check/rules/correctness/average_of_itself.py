"""A target network or an average is the very network that it is updated from.

## What it does
Finds an update of weights (`t.mul_(d).add_(p)`, `t.data.copy_(...)`, `lerp_`) and a `load_state_dict(... .state_dict())` whose two sides belong to one module.

## Why
`target = model` makes a second name, not a second network.
The target then follows every step of the optimizer: the average smooths nothing, targets of Q-learning move with the network that chases them, and what is evaluated as the average is the raw model.

## Fix
Make the target with `copy.deepcopy(model)`.

## When to ignore
Never: the update changes nothing.

## References
- Mnih et al., "Human-level control through deep reinforcement learning", 2015; Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.averages import averages
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event, Store
from preflight.source.values import Choice, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="average-of-itself",
    code="EMA002",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("average",),
)

_HEAD = """
import copy, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step(x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
average = model
for x, y in loader:
    step(x, y)
    with torch.no_grad():
        for p, a in zip(model.parameters(), average.parameters()):
            a.mul_(0.999).add_(p, alpha=0.001)
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--tau", type=float, default=0.005)
args = parser.parse_args()
def soft_update(target, source, tau):
    for t, s in zip(target.parameters(), source.parameters()):
        t.data.copy_(tau * s.data + (1 - tau) * t.data)
target = model.to("cpu")
for x, y in loader:
    step(x, y)
    soft_update(target, model, args.tau)
""",
    f"""{_HEAD}
class Agent:
    def __init__(self, net):
        self.net, self.target = net, net
    def sync(self):
        self.target.load_state_dict(self.net.state_dict())
agent = Agent(model)
for i, (x, y) in enumerate(loader):
    step(x, y)
    if i % 100 == 0:
        agent.sync()
""",
)

GOOD = (
    f"""{_HEAD}
from torchdata.stateful_dataloader import StatefulDataLoader
stream = StatefulDataLoader(data, batch_size=8)
for x, y in stream:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    stream.load_state_dict(stream.state_dict())
""",
    f"""{_HEAD}
average = copy.deepcopy(model)
for x, y in loader:
    step(x, y)
    with torch.no_grad():
        for p, a in zip(model.parameters(), average.parameters()):
            a.mul_(0.999).add_(p, alpha=0.001)
average.load_state_dict(model.state_dict())
""",
    f"""{_HEAD}
state = copy.deepcopy(model.state_dict())
for x, y in loader:
    step(x, y)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.999)
            p.data = p.data.to(torch.float32)
    kept = [p.detach().clone() for p in model.parameters()]
    for k, p in zip(kept, model.parameters()):
        p.data.copy_(k)
model.load_state_dict(state)
""",
    f"""{_HEAD}
def update(targets, sources, rate):
    for t, s in zip(targets, sources):
        t.detach().mul_(rate).add_(s, alpha=1 - rate)
params = list(model.parameters())
average = copy.deepcopy(params)
averages = [copy.deepcopy(params) for _ in range(2)]
for x, y in loader:
    step(x, y)
    update(average, params, 0.999)
    for kept, rate in zip(averages, (0.99, 0.999)):
        update(kept, params, rate)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for updates whose two sides are one module."""
    told: set[int] = set()
    for found in averages(context):
        if found.source is found.average and id(found.place.node) not in told:
            told.add(id(found.place.node))
            yield _finding(context, found.place)
    for event in context.trace.calls(".load_state_dict"):
        if _own_state(event) and id(event.node) not in told:
            told.add(id(event.node))
            yield _finding(context, event)


def _own_state(event: Event) -> bool:
    """Whether a module is given its own state, asked for in the call itself."""
    if not isinstance(event.node, ast.Call) or not event.args or event.receiver is None or not event.node.args:
        return False
    given, base = settle(event.args[0]), settle(event.receiver)
    asked = event.node.args[0]
    if not isinstance(given, Obj) or given.name != ".state_dict" or isinstance(base, Choice) or given.receiver is None:
        return False
    direct = isinstance(asked, ast.Call) and given.site is not None and given.site.node is asked
    return direct and isinstance(base, Obj) and is_module(base) and settle(given.receiver) is base


def _finding(context: Context, place: Event | Store) -> Finding:
    return context.finding(
        RULE,
        place,
        "both sides of this update are one module: the second name is no copy, so the update changes nothing",
        evidence=[Evidence("networks", 1)],
        fix=Fix(
            title="copy the network",
            safe=False,
            instruction="make the target with copy.deepcopy(model), or build it again and load the weights",
            expected="the target changes only where it is updated",
        ),
    )
