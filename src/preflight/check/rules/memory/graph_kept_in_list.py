"""A list collects tensors with their graph.

## What it does
Looks for tensors that still carry the graph of a forward pass and are appended to a list that outlives the pass, where no `backward()` frees that graph.

## Why
The graph holds the activations of all layers of its forward pass, so the memory grows by the activations of one batch with every pass until the run ends out of memory.
After a plain `backward()` the saved activations are gone, and a collected loss costs one 512-byte block of device memory per step: that is reported as information only.
With `retain_graph=True` the graph stays, backward or not; where another backward pass without it frees a part, that is a warning.

## Fix
Collect `loss.item()` (a number) or `tensor.detach()`.

## When to ignore
When the collected tensors are summed up for a later `backward()` that cannot be seen from the script.

## References
- PyTorch documentation, "Frequently asked questions": "My model reports out of memory"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.evaluations import evaluations_with_gradients
from preflight.check.queries.growing_lists import bounded, emptied
from preflight.check.queries.kept_graphs import FATES, detached_in_place, fate_of_graph, graph_of, used_in_losses
from preflight.check.rule import Rule
from preflight.source.nodes import encloses
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, Seq, Value, settle
from preflight.vocabulary.finding import Confidence, Finding, Severity

RULE = Rule(
    name="graph-kept-in-list",
    code="MEM010",
    severity="error",
    confidence="likely",
    needs=("forward",),
    layer="D",
    tags=("memory", "growth"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    seen += [model(x)]
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    history.append(loss)
""",
    """
import torch
import torch.nn as nn
class Log:
    def __init__(self):
        self.norms = []
    def add(self, value):
        self.norms.append(value)
log = Log()
net = nn.Linear(10, 2)
opt = torch.optim.Adam(net.parameters())
for x, y in data:
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()
    log.add(net(x).norm())
""",
    """
import argparse, torch
from torch.nn import Linear, functional as F
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
model = Linear(10, 2)
opt = torch.optim.SGD(model.parameters(), args.lr)
losses = []
for batch in loader:
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    opt.step()
    opt.zero_grad()
    losses.append(loss)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
for x, y in data:
    out = model(x)
    parts = [nn.functional.cross_entropy(out, y), out.norm()]
    optimizer.zero_grad()
    sum(parts).backward(retain_graph=True)
    optimizer.step()
    history.extend(parts)
""",
)
GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []
for x, y in loader:
    optimizer.zero_grad()
    out = model(x)
    nn.functional.cross_entropy(out, y).backward()
    optimizer.step()
    seen += [out.detach(), len(x)]
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
for tasks in data:
    losses = []
    for x, y in tasks:
        losses.append(nn.functional.cross_entropy(model(x), y))
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    history.append(loss.detach())
    history.append(loss.item())
""",
    """
import torch
from torch import nn
from torch.distributions import Categorical
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
policy.saved = []
def act(state):
    m = Categorical(logits=policy(state))
    action = m.sample()
    policy.saved.append(m.log_prob(action))
    return action.item()
for episode in range(100):
    state = env.reset()
    for t in range(1000):
        state, reward, done, _ = env.step(act(state))
    loss = torch.stack([-p for p in policy.saved]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del policy.saved[:]
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find collected tensors whose graph stays alive."""
    used = used_in_losses(context)
    evaluating = {id(e) for found in evaluations_with_gradients(context) for e in found.inside}
    for event in context.trace.calls(".append", ".add", ".appendleft", ".extend"):
        loop = context.reading.loop_of(event)
        if loop is None or not event.args or id(event) in evaluating or event.context.shadow:
            continue
        holder = _long_lived(event, loop)
        if holder is None or id(holder) in used or emptied(context, holder) or bounded(event.receiver):
            continue
        found = _with_graph(context, event)
        if found is None:
            continue
        value, source = found
        severity, confidence, told = _weigh(context, loop, value, source)
        yield _finding(context, event, source, severity, confidence, told)


def _with_graph(context: Context, event: Event) -> tuple[Value, Obj] | None:
    """What is put into the list and carries a graph, with the forward pass: ``kept += [loss]`` puts in an item."""
    given = settle(event.args[0])
    several = event.name == ".extend" and isinstance(given, Seq) and not given.open
    for value in given.items if several and isinstance(given, Seq) else [event.args[0]]:
        source = graph_of(context, value)
        if source is not None and not detached_in_place(context, value):
            return value, source
    return None


def _finding(
    context: Context, event: Event, source: Obj, severity: Severity, confidence: Confidence, told: str
) -> Finding:
    node = event.node
    arg = getattr(node, "args", [None])[0]
    text = event.script.segment(arg) if arg is not None else ""
    single = arg is not None and text.isidentifier() and event.name != ".extend"
    edit = context.replace((event.script, arg), f"{text}.detach()") if single else None
    return context.finding(
        RULE,
        event,
        f"a tensor is collected in each pass together with its graph: {told}",
        evidence=[Evidence("collected", text or None), Evidence("detached", False)],
        related=[(source, "the forward pass whose graph it carries")],
        fix=Fix(
            title="collect the number or the detached tensor",
            safe=False,
            edits=edits(edit) if edit is not None else (),
            instruction="collect value.item() or value.detach()",
            expected="the graph is freed after each pass",
        ),
        severity=severity,
        confidence=confidence,
    )


def _weigh(context: Context, loop: TrainingLoop, value: Value, source: Obj) -> tuple[Severity, Confidence, str]:
    """How bad it is: that depends on whether a backward frees the graph."""
    fate = fate_of_graph(context, loop, value, source)
    if fate == "freed":
        return (
            "info",
            "certain",
            "backward has freed the activations, so this costs one 512-byte block and the nodes of the graph per pass",
        )
    if fate == "partly":
        return "warning", "likely", f"{FATES[fate]}, so the other activations of every pass stay in memory"
    return "error", "likely", f"{FATES[fate]}, so the activations of every pass stay in memory"


def _long_lived(event: Event, loop: TrainingLoop) -> Value | None:
    """The list that is appended to, when it was made outside the training loop."""
    base = settle(event.receiver) if event.receiver is not None else None
    if not isinstance(base, Seq) or base.site is None:
        return None
    node = loop.frame.node
    if node is None:
        return None
    if encloses(node, base.site.node):
        return None
    # A list that a function makes for itself lives as long as the call.
    for frame in event.context.frames():
        if frame is loop.frame:
            return base
        func = getattr(frame.value, "node", None)
        if frame.kind == "call" and func is not None and encloses(func, base.site.node):
            return None
    return base
