"""backward() is called twice on one graph.

## What it does
Looks for two backwards in one pass of the loop that share a part of the graph with weights in it, where the first does not keep it.

## Why
The first `backward()` frees what the graph had saved.
The second raises `RuntimeError: Trying to backward through the graph a second time`.
The usual case is a GAN that trains its discriminator on `fake` and forgets to detach it.

## Fix
Detach what the first loss does not train, add the losses and call `backward()` once, or compute the shared part again.

## When to ignore
Never; `retain_graph=True` in the first call is the expensive way out.

## References
- PyTorch documentation, `torch.Tensor.backward`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import graph
from preflight.check.queries.cut_off import behind
from preflight.check.queries.parameters import holding_of
from preflight.check.queries.steps import each_pass
from preflight.check.queries.updates import managed
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop, loss_of, same_guards
from preflight.source.values import Known, Obj, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="backward-twice-on-one-graph",
    code="AUT006",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("autograd",),
)

BAD = (
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt = torch.optim.Adam([*G.parameters(), *D.parameters()])
for x in data:
    opt.zero_grad()
    fake = G(x).requires_grad_(requires_grad=True)  # still what G made
    D(fake).mean().backward()
    (fake * D(fake)).mean().backward()
    opt.step()
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for x in data:
    fake = G(torch.randn(4, 8))
    opt_d.zero_grad()
    (D(fake).mean() - D(x).mean()).backward()
    opt_d.step()
    opt_g.zero_grad()
    (-D(fake).mean()).backward()
    opt_g.step()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.opt = A(self.net.parameters())
    def update(self, x):
        self.opt.zero_grad()
        out = self.net(x)
        first, second = out.mean(), out.pow(2).mean()
        first.backward()
        second.backward()
        self.opt.step()
t = Trainer()
for x in data:
    t.update(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--weight", type=float, default=0.5)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
def back(value):
    value.backward()
for x in data:
    opt.zero_grad()
    loss = net(x).mean() * args.weight
    back(loss)
    back(loss)
    opt.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    loss = 0
    for x, y in data:
        optimizer.zero_grad()
        loss = loss + nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
from speech import cut
maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
first = torch.optim.Adam(judge.parameters())
second = torch.optim.Adam(maker.parameters())
for x, y in data:
    made, places = maker(x), maker(x)
    y = cut(y, places)
    first.zero_grad()
    (judge(y) - judge(made.detach())).mean().backward()
    first.step()
    second.zero_grad()
    (judge(made) - judge(y)).mean().backward()
    second.step()
""",
    """
import torch
from torch import nn
from torch.autograd import Variable
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
def penalty(real, fake):
    between = Variable((real + fake) / 2, requires_grad=True)  # a tensor of its own: G is not behind it
    slope = torch.autograd.grad(D(between).sum(), between, create_graph=True)[0]
    return ((slope.norm(dim=1) - 1) ** 2).mean()
for x in data:
    fake = G(torch.randn(4, 8))
    opt_d.zero_grad()
    (D(fake.detach()).mean() - D(x).mean() + penalty(x, fake)).backward()
    opt_d.step()
    opt_g.zero_grad()
    (-D(fake).mean()).backward()
    opt_g.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    total, loss = 0, 0
    for i, (x, y) in enumerate(data):
        loss = loss + nn.functional.cross_entropy(model(x), y)
        total += loss.item()
        if i % 4 == 3:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss = 0
""",
    """
import torch
from torch import nn
G, D = nn.Linear(8, 8), nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
for x in data:
    fake = G(torch.randn(4, 8))
    opt_d.zero_grad()
    (D(fake.detach()).mean() - D(x).mean()).backward()
    opt_d.step()
    opt_g.zero_grad()
    (-D(fake).mean()).backward()
    opt_g.step()
""",
    """
import torch
from torch import nn
net, frozen = nn.Linear(4, 4), nn.Linear(4, 4)
opt = torch.optim.Adam(net.parameters())
for x in data:
    opt.zero_grad()
    features = frozen(x)
    net(features).mean().backward()
    net(features).pow(2).mean().backward()
    opt.step()
""",
    """
import torch
from torch import nn
net = nn.Linear(4, 4)
opt = torch.optim.Adam(net.parameters())
for x in data:
    opt.zero_grad()
    out = net(x)
    out.mean().backward(retain_graph=True)
    out.pow(2).mean().backward()
    opt.step()
""",
    """
import torch
from torch import nn
net = nn.Linear(4, 4)
opt = torch.optim.Adam(net.parameters())
use_amp = bool(input())
for x in data:
    opt.zero_grad()
    loss = net(x).mean()
    if use_amp:
        (loss * 2).backward()
    if not use_amp:
        loss.backward()
    opt.step()
""",
    """
import torch
from torch import nn
from torch.distributions import Categorical
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
opt_a, opt_c = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
for state, gains in data:
    policy = Categorical(logits=actor(state))
    action = policy.sample()  # drawn: no graph leads back to the actor
    reward, value = gains.gather(1, action[:, None]), critic(state)
    opt_a.zero_grad()
    (-(policy.log_prob(action) * (reward - value).detach()).mean()).backward()
    opt_a.step()
    opt_c.zero_grad()
    nn.functional.mse_loss(value, reward).backward()
    opt_c.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the graphs of the backwards of each loop, two by two; and look at losses that a loop adds up."""
    if managed(context):
        return
    trained = {i for o in context.reading.made("optimizer") for i in holding_of(context.reading, o).members}
    for loop in context.reading.loops:
        yield from _carried(context, loop)
        if len(loop.backwards) < 2 or len(loop.backwards) > 8:
            continue
        graphs = [_calls(loss_of(b), trained) for b in loop.backwards]
        found = False
        for i, first in enumerate(loop.backwards):
            for j in range(i + 1, len(loop.backwards)):
                second = loop.backwards[j]
                if found or not _both_happen(first, second, loop) or _keeps(first):
                    continue
                shared = [v for k, v in graphs[i].items() if k in graphs[j] and _fresh(v, loop, first)]
                if shared:
                    found = True
                    yield _finding(context, first, second, shared[0])


def _carried(context: Context, loop: TrainingLoop) -> Iterator[Finding]:
    """Losses that are added to those of earlier passes, whose graphs were freed there."""
    for backward in loop.backwards:
        loss = loss_of(backward)
        if _keeps(backward) or not each_pass(backward.context, loop.frame):
            continue
        for carry in context.trace.carried:
            if carry.frame is not loop.frame or not any(one is loss for one in options_of(carry.final, limit=4)):
                continue
            if loss is None or not behind(loss) or not any(value is carry.mark for value in graph(loss)):
                continue
            yield context.finding(
                RULE,
                backward,
                f"{carry.name} holds the losses of earlier passes, whose graphs backward() has freed: the second pass raises an error",
                evidence=[Evidence("losses in the second pass", 2), Evidence("retain_graph in the first", False)],
                fix=Fix(
                    title="call backward() on the loss of this pass alone",
                    safe=False,
                    instruction="keep the loss of the pass in a variable of its own, and add loss.item() to what is logged",
                    expected="each graph is gone through once",
                ),
                related=[(loss, "it is added up here")] if isinstance(loss, Obj) else [],
            )
            return


def _finding(context: Context, first: Event, second: Event, shared: Obj) -> Finding:
    return context.finding(
        RULE,
        second,
        "backward() goes through a graph that an earlier backward() has freed: it raises an error",
        evidence=[
            Evidence("backwards through the same call of a module", 2),
            Evidence("retain_graph in the first", False),
        ],
        fix=Fix(
            title="detach the shared part, or call backward() once on the sum",
            safe=False,
            instruction="detach the shared tensor in the loss that does not train it, or add the losses and call backward() once",
            expected="each graph is gone through once",
        ),
        related=[(first, "the first backward frees the graph"), (shared, "this call is in both graphs")],
    )


def _both_happen(first: Event, second: Event, loop: TrainingLoop) -> bool:
    """Whether one pass runs both: neither stands in a branch that the other does not share."""
    mine = [(id(f.node), f.polarity) for f in first.context.frames() if f.kind in ("if", "except")]
    other = [(id(f.node), f.polarity) for f in second.context.frames() if f.kind in ("if", "except")]
    loops = [f for f in first.context.loops() if f in second.context.loops()]
    return (
        same_guards(first, second) and mine == other and loops[:1] == [loop.frame] and first.node is not second.node
    ) or (
        same_guards(first, second)
        and mine == other
        and first.context.depth == second.context.depth
        and _place(first) != _place(second)
        and loops[:1] == [loop.frame]
    )


def _place(event: Event) -> list[int]:
    """The calls that led to an event."""
    return [id(f.node) for f in event.context.frames() if f.kind == "call"]


def _keeps(event: Event) -> bool:
    given = event.argument(1, "retain_graph") or event.kwargs.get("create_graph")
    if given is None:
        return False
    base = settle(given)
    return not (isinstance(base, Known) and not base.value and not base.soft)


def _calls(loss: Value | None, trained: set[int]) -> dict[int, Obj]:
    """Calls of modules with trained weights in the graph of a loss."""
    found: dict[int, Obj] = {}
    for value in graph(loss, sure=True):
        if isinstance(value, Obj) and value.name == "()" and value.kind == "call" and value.receiver is not None:
            holder = settle(value.receiver)
            if id(holder) in trained:
                found[id(value)] = value
    return found


def _fresh(value: Obj, loop: TrainingLoop, first: Event) -> bool:
    """Whether a call is made once per pass, before the first backward."""
    return value.context is not None and value.context.within(loop.frame) and value.number < first.number
