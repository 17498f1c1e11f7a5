"""Two terms of a loss are the same.

## What it does
Finds two terms of one loss that are the same distance (`mse_loss`, `l1_loss` and the like) between the same two values, with the same sides detached.

## Why
A distance does not change when its sides are exchanged: both terms have the same value and the same gradients, so the second only weighs the first anew.
What the second one was meant to train gets no gradient from it.
The usual case is a VQ-VAE whose commitment loss detaches the encoder's output, as the codebook's loss does, in place of the codebook's: nothing keeps the encoder near the codes.

## Fix
Detach the other side in one of the two: `mse_loss(z.detach(), q) + beta * mse_loss(z, q.detach())`.

## When to ignore
When a term is counted twice on purpose; a factor says so more plainly.

## References
- van den Oord et al., "Neural Discrete Representation Learning" (2017), equation 3
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.tensors import operand, operation
from preflight.check.queries.terms import loss_terms
from preflight.check.rule import Rule
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="term-counted-twice",
    code="LOS017",
    severity="warning",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("loss",),
)

BAD = (
    """
import torch
model, mse = Coder(), torch.nn.MSELoss()
encoder, codes = torch.nn.Linear(8, 4), torch.nn.Embedding(16, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *codes.parameters()])
for x, y in loader:
    z = encoder(x)
    q = codes(y)
    codebook = mse(z.detach(), q)
    commitment = mse(q, z.detach())
    optimizer.zero_grad()
    (codebook + 0.25 * commitment).backward()
    optimizer.step()
""",
    """
import torch.nn.functional as F
from torch import nn, optim
class Trainer:
    def __init__(self):
        self.student, self.teacher = nn.Linear(4, 4), nn.Linear(4, 4)
        self.opt = optim.SGD(self.student.parameters(), lr=0.1)
    def loss(self, x):
        own, other = self.student(x), self.teacher(x).detach()
        return F.l1_loss(own, other) + F.l1_loss(other, own)
    def run(self, batches):
        for x in batches:
            self.opt.zero_grad()
            self.loss(x).backward()
            self.opt.step()
Trainer().run(loader)
""",
    """
import torch as t
from torch.nn import functional as f
left, right = t.nn.Linear(4, 4), t.nn.Linear(4, 4)
opt = t.optim.AdamW([*left.parameters(), *right.parameters()])
for a, b, target in loader:
    first, second = left(a), right(b)
    loss = 0
    loss += f.smooth_l1_loss(first, target)
    loss += f.smooth_l1_loss(first, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
encoder, codes, mse = nn.Linear(8, 4), nn.Embedding(16, 4), nn.MSELoss()
optimizer = torch.optim.Adam([*encoder.parameters(), *codes.parameters()])
for x, y in loader:
    z = encoder(x)
    q = codes(y)
    optimizer.zero_grad()
    (mse(z.detach(), q) + 0.25 * mse(z, q.detach())).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
import torch.nn.functional as F
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    loss = F.mse_loss(net(x), y) + F.mse_loss(net(x.flip(0)), y) + F.l1_loss(net(x), y)
    near = F.smooth_l1_loss(net(x), y, beta=0.1)
    optimizer.zero_grad()
    (loss + near + F.mse_loss(net(x), y, reduction="sum")).backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    loss = 0
    for _ in range(2):
        loss = loss + F.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
net, buffer = Net(), torch.zeros(8, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, z, y, near, far in loader:
    p = torch.tanh(net(x))
    loss = F.mse_loss(p, y, weight=near) + F.mse_loss(p, y, weight=far)
    buffer.copy_(y)
    loss = loss + F.mse_loss(p, buffer)
    buffer.copy_(y.flip(0))
    loss = loss + F.mse_loss(p, buffer)
    buffer[:] = z
    loss = loss + F.mse_loss(p, buffer)
    net(x)
    loss = loss + F.mse_loss(net.hidden, y)
    net(z)
    loss = loss + F.mse_loss(net.hidden, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
import torch.nn.functional as F
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    h, loss = x, 0
    for _ in range(5):
        loss = loss + F.mse_loss(h, y)
        h = net(h)
    loss = loss + F.mse_loss(h, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)

_SYMMETRIC = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_DETACHING = frozenset({"detach", "detach_"})
_OPTIONS = ("reduction", "reduce", "size_average", "beta", "delta", "weight")


def check(context: Context) -> Iterator[Finding]:
    """Compare the distances that are terms of one loss, two by two."""
    calls = {id(settle(call.event.result)): call for call in loss_calls(context, *_SYMMETRIC) if call.event.result}
    told: set[int] = set()
    for terms in loss_terms(context):
        seen: dict[object, LossCall] = {}
        for term in terms:
            call = calls.get(id(term.value))
            if call is None or not call.recorded or call.event.context.shadow:
                continue
            key = _key(call)
            if key is None:
                continue
            earlier = seen.setdefault((key, term.scale, term.factor > 0), call)
            if earlier is not call and id(call) not in told and not _written_between(context, earlier, call):
                told.add(id(call))
                yield _finding(context, earlier, call)


def _key(call: LossCall) -> object | None:
    """What a distance is between, whichever side comes first, with its options and its loops; None where that is not known."""
    sides = [_side(side) for side in (call.input, call.target)]
    made = call.criterion or call.event.result
    if None in sides or not isinstance(made, Obj) or made.open_args:
        return None
    loops = tuple(id(frame) for frame in call.event.context.frames() if frame.kind == "loop")
    return call.kind, frozenset(sides), tuple(_option(call.option(name)) for name in _OPTIONS), loops


def _option(value: Value | None) -> object:
    """An option as it is compared: its value, or what it is where that is not known."""
    base = settle(value) if value is not None else None
    return repr(base.value) if isinstance(base, Known) else id(base) if base is not None else None


def _side(value: Value | None) -> tuple[int, bool] | None:
    """A side as the value that it comes from and whether it is detached from that."""
    base, detached = _source(value)
    return (id(base), detached) if isinstance(base, Obj) else None


def _source(value: Value | None) -> tuple[Value | None, bool]:
    """The value that a side comes from, and whether it is detached from that."""
    base, detached = settle(value) if value is not None else None, False
    while isinstance(base, Obj) and operation(base) in _DETACHING and (inner := operand(base)) is not None:
        base, detached = settle(inner), True
    return base, detached


def _written_between(context: Context, earlier: LossCall, call: LossCall) -> bool:
    """Whether a side may hold other numbers by the time of the second call.

    A tensor may be written to, and a thing whose attribute it is may be called again.
    """
    mine: set[int] = set()
    for side in (call.input, call.target):
        base, _ = _source(side)
        while isinstance(base, Obj):
            mine.add(id(base))
            base = settle(base.receiver) if base.kind in ("attr", "item") and base.receiver is not None else None
    first, last = earlier.event.number, call.event.number
    for event in context.trace.events:
        if not first < event.number < last or event.receiver is None or id(settle(event.receiver)) not in mine:
            continue
        if (
            event.name == "()"
            or event.inlined
            or (event.name.endswith("_") and event.name.strip(".") not in _DETACHING)
        ):
            return True
    return any(first < store.number < last and id(settle(store.target)) in mine for store in context.trace.stores)


def _finding(context: Context, earlier: LossCall, call: LossCall) -> Finding:
    return context.finding(
        RULE,
        call.event,
        f"the loss holds this {call.name} twice: it is between the same two values, and the same side is detached",
        evidence=[Evidence("terms that are the same", 2)],
        fix=Fix(
            title="train the other side with one of the two",
            safe=False,
            instruction="detach the other value in one of the terms, or leave one of them out",
            expected="each term trains what it was written for",
        ),
        related=[(earlier.event, "the other term")],
    )
