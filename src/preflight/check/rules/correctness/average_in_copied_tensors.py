"""A target network is brought on in copies of its tensors.

## What it does
Follows updates in place (`lerp_`, `mul_`, `add_`, `copy_`) of clones of the parameters of a network that is itself a copy of another one and that nothing else writes to.

## Why
`clone()` gives a new tensor: what is written to it does not reach the network.
The targets go on to come from the weights of the start, and the loss falls all the same.

## Fix
Write to the parameters themselves, under `torch.no_grad()`.

## When to ignore
When the clones are what is used, and the network is only where they began.

## References
- PyTorch documentation of `Tensor.clone`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.averages import owner
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="average-in-copied-tensors",
    code="EMA007",
    severity="error",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("average",),
)
_WEIGHTS = (".parameters", ".named_parameters", ".buffers", ".named_buffers", ".state_dict", ".load_state_dict")
_WRITES = (".lerp_", ".mul_", ".add_", ".copy_")
_HARMLESS = ("()", ".eval", ".train", ".to", ".cuda", ".requires_grad_")
_TAKEN = (*_WEIGHTS, ".detach", ".clone", ".items", ".values", ".keys")

_HEAD = """
import copy, torch
from torch import nn
q = nn.Linear(4, 2)
target = copy.deepcopy(q)
optimizer = torch.optim.Adam(q.parameters())
"""
_TRAIN = """
for s, a, r, n in loader:
    with torch.no_grad():
        y = r + 0.99 * target(n).amax(1)
    loss = nn.functional.mse_loss(q(s).gather(1, a).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
slow = [p.detach().clone() for p in target.parameters()]{_TRAIN}
    with torch.no_grad():
        for t, p in zip(slow, q.parameters()):
            t.lerp_(p, 0.005)
""",
    f"""{_HEAD}
slow = {{name: p.data.clone() for name, p in target.named_parameters()}}{_TRAIN}
    for name, p in q.named_parameters():
        slow[name].mul_(0.99).add_(p.data, alpha=0.01)
""",
    """
import copy, torch
from torch import nn
class Agent:
    def __init__(self):
        self.q = nn.Linear(4, 2)
        self.target = copy.deepcopy(self.q)
        self.optimizer = torch.optim.Adam(self.q.parameters())
        self.slow = [p.clone() for p in self.target.parameters()]
    def learn(self, s, a, r, n):
        y = (r + 0.99 * self.target(n).amax(1)).detach()
        loss = nn.functional.mse_loss(self.q(s).gather(1, a).squeeze(1), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        for t, p in zip(self.slow, self.q.parameters()):
            t.data.copy_(0.99 * t.data + 0.01 * p.data)
agent = Agent()
for s, a, r, n in loader:
    agent.learn(s, a, r, n)
""",
)

GOOD = (
    f"""{_HEAD}{_TRAIN}
    with torch.no_grad():
        for t, p in zip(target.parameters(), q.parameters()):
            t.lerp_(p, 0.005)
""",
    f"""{_HEAD}
slow = [p.detach().clone() for p in target.parameters()]{_TRAIN}
    with torch.no_grad():
        for t, p in zip(slow, q.parameters()):
            t.lerp_(p, 0.005)
        for t, p in zip(target.parameters(), slow):
            t.copy_(p)
""",
    f"""{_HEAD}
slow = {{name: p.detach().clone() for name, p in target.named_parameters()}}{_TRAIN}
    for name, p in q.named_parameters():
        slow[name].lerp_(p.data, 0.01)
    target.load_state_dict(slow)
""",
    f"""{_HEAD}
slow = [p.detach().clone() for p in target.parameters()]{_TRAIN}
    with torch.no_grad():
        for t, p in zip(slow, q.parameters()):
            t.lerp_(p, 0.005)
        target.weight.copy_(slow[0])
        target.bias.copy_(slow[1])
""",
    f"""{_HEAD}
slow = [p.detach().clone() for p in target.parameters()]
target.weight.data, target.bias.data = slow{_TRAIN}
    with torch.no_grad():
        for t, p in zip(slow, q.parameters()):
            t.lerp_(p, 0.005)
""",
    f"""{_HEAD}
slow = [p.detach().clone() for p in target.parameters()]{_TRAIN}
    with torch.no_grad():
        for t, p in zip(slow, q.parameters()):
            t.lerp_(p, 0.005)
        for part in target.modules():
            part.weight.data = slow[0]
            part.bias.data = slow[1]
""",
    f"""{_HEAD}
slow = {{name: p.detach().clone() for name, p in target.named_parameters()}}{_TRAIN}
    for name, p in q.named_parameters():
        slow[name].lerp_(p.data, 0.01)
    torch.func.functional_call(target, slow, (s,))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find updates of clones of the parameters of a copied network that rests."""
    called = {id(settle(event.receiver)) for event in context.trace.calls("()") if event.receiver is not None}
    told: set[int] = set()
    for event in context.trace.calls(*_WRITES):
        clone = _cloned(event.receiver)
        network = owner(clone.receiver) if clone is not None else None
        if network is None or network.kind != "copy" or id(network) in told or id(network) not in called:
            continue
        if clone is not None and _rests(context, network):
            told.add(id(network))
            yield _finding(context, event, clone, network)


def _cloned(value: Value | None) -> Obj | None:
    """The clone that a value is, through ``.data`` and updates in place."""
    for _ in range(4):
        value = settle(value) if value is not None else None
        if not isinstance(value, Obj):
            return None
        if value.name == ".clone":
            return value
        if value.name.lstrip(".") not in ("data", "detach", *(one.lstrip(".") for one in _WRITES)):
            return None
        value = value.receiver
    return None


def _rests(context: Context, network: Obj) -> bool:
    """Whether nothing but the making of the clones has to do with the weights of a network."""
    written = [store.target for store in context.trace.stores]
    written += [e.receiver for e in context.trace.calls(*_WRITES) if e.receiver is not None]
    if any(_by_name(value) for value in written):
        return False  # an attribute of a copy is told as that of the original: it may be the network's own
    touched = [e for e in context.trace.events if e.name not in _HARMLESS and _of(e.receiver, network)]
    if len([e for e in touched if e.name in _WEIGHTS]) != 1 or any(e.name not in _TAKEN for e in touched):
        return False
    return not any(
        settle(given) is network
        for event in context.trace.events
        if not event.inlined
        for given in (*event.args, *event.kwargs.values())
    )


def _by_name(value: Value) -> bool:
    """Whether a tensor is the attribute of a module: ``net.weight``, also through ``.data``."""
    found = settle(value)
    while isinstance(found, Obj) and found.name in ("data", "detach", ".detach") and found.receiver is not None:
        found = settle(found.receiver)
    held = settle(found.receiver) if isinstance(found, Obj) and found.kind == "attr" and found.receiver else None
    return is_module(held)


def _of(value: Value | None, network: Obj) -> bool:
    """Whether a value is a network or what was taken from it by name, by index or by a method."""
    for _ in range(8):
        value = settle(value) if value is not None else None
        if value is network:
            return True
        if not isinstance(value, Obj) or value.name in (".clone", "()"):
            return False
        value = value.receiver
    return False


def _finding(context: Context, event: Event, clone: Obj, network: Obj) -> Finding:
    return context.finding(
        RULE,
        event,
        "the update is written to clones of the network's parameters: the network itself keeps the weights of the start",
        evidence=[Evidence("writes to the network's own parameters", 0)],
        related=[(clone, "the clones are made here"), (network, "the network is made here")],
        fix=Fix(
            title="write to the parameters themselves",
            instruction="leave out clone(): keep the parameters of the network, and update them under torch.no_grad()",
            expected="the network follows the trained one",
        ),
    )
