"""The target of a temporal difference is trained together with the prediction.

## What it does
Looks at regression losses whose target is data plus a discounted output of a network, `r + gamma * q(next)`, and reports a target through which gradients reach parameters that the optimizer holds.

## Why
The target stands for the value that the prediction is moved to, and is a constant in the update.
With gradients through it the network also lowers the value of the next state to meet the prediction: the update is another one, that learns far slower or to wrong values.

## Fix
Compute the target under `torch.no_grad()`, or detach it.

## When to ignore
When the residual gradient is meant.

## References
- Sutton and Barto, "Reinforcement learning", 2018, section 9.3: semi-gradient methods; Mnih et al., 2015, equation 3
- Baird, "Residual algorithms", 1995
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import reached
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.tensors import source_text
from preflight.check.queries.terms import Term, factors, number, terms
from preflight.check.queries.updates import updates
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="target-moves-with-model",
    code="TDT001",
    severity="warning",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("reinforcement", "autograd"),
)

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
q = nn.Linear(4, 2)
target = nn.Linear(4, 2)
optimizer = torch.optim.Adam(q.parameters())
def update(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
gamma = 0.99
for s, a, r, s2, done in replay:
    wanted = r + gamma * q(s2).max(1)[0] * (1 - done)
    update(F.mse_loss(q(s).gather(1, a).squeeze(1), wanted))
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.98)
args = parser.parse_args()
def bellman(r, s2, going):
    return r + args.gamma * going * q(s2).amax(dim=1)
for s, a, r, s2, going in replay:
    update(F.smooth_l1_loss(q(s).gather(1, a).squeeze(1), bellman(r, s2, going)))
""",
    f"""{_HEAD}
class Critic:
    discount = 0.9
    criterion = nn.MSELoss()
    def loss(self, s, r, s2):
        return self.criterion(q(s), r + self.discount * q(s2))
critic = Critic()
for s, r, s2 in replay:
    update(critic.loss(s, r, s2))
""",
)

GOOD = (
    f"""{_HEAD}
for s, a, r, s2, done in replay:
    with torch.no_grad():
        wanted = r + 0.99 * q(s2).max(1)[0] * (1 - done)
    update(F.mse_loss(q(s).gather(1, a).squeeze(1), wanted))
    update(F.mse_loss(q(s), r + 0.99 * q(s2).detach()))
    update(F.mse_loss(q(s), (r + 0.99 * q(s2)).detach()))
    update(F.mse_loss(q(s), r + 0.99 * target(s2)))
""",
    f"""{_HEAD}
for x, y in loader:
    update(F.mse_loss(q(x), y) + F.mse_loss(x, x + q(y) * 2))
""",
    f"""{_HEAD}
import copy
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    def forward(self, s):
        return self.net(s)
critic = Critic()
slow = copy.deepcopy(critic)
optimizer = torch.optim.Adam(critic.parameters())
for s, a, r, s2 in replay:
    update(F.mse_loss(critic(s), r + 0.99 * slow(s2)))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the targets of regression losses."""
    told: set[int] = set()
    behind = [loop.behind_losses for loop in context.reading.loops]
    trained = frozenset(i for u in updates(context) for i in u.holding.members)
    for call in loss_calls(context, "mse_loss", "smooth_l1_loss", "huber_loss"):
        made = call.event.result
        if not call.recorded or call.event.context.shadow or not any(id(made) in losses for losses in behind):
            continue
        for term in _bootstrapped(call, trained):
            if id(call.event.node) not in told and not _of_copy(context, term.value):
                told.add(id(call.event.node))
                yield _finding(context, call, term)


def _bootstrapped(call: LossCall, trained: frozenset[int]) -> Iterator[Term]:
    """The discounted outputs in a target whose network the prediction comes from and the optimizer holds."""
    if call.target is None or call.input is None:
        return
    parts = terms(call.target)
    predicted = reached([call.input]).keys() & trained
    if len(parts) < 2 or not predicted or all(_through([p.value]) & trained for p in parts):
        return
    for part in parts:
        numbers = [n for f in factors(part.value) if (n := number(f)) is not None]
        discount = abs(part.factor)
        for told in numbers:
            discount *= abs(told)
        if 0.5 <= discount < 1.0 and _through([part.value]) & predicted:
            yield part


def _through(values: list[Value]) -> set[int]:
    return set(reached(values))


def _of_copy(context: Context, value: Value) -> bool:
    """Whether a copy of a network is called for a value: its layers are others than those it was copied from."""
    behind = {id(part) for part in provenance(value)}
    for event in context.trace.calls("()"):
        called = settle(event.receiver) if event.receiver is not None else None
        if isinstance(called, Obj) and called.kind == "copy" and id(event.result) in behind:
            return True
    return False


def _finding(context: Context, call: LossCall, term: Term) -> Finding:
    return context.finding(
        RULE,
        call.event,
        f"the target holds {source_text(context, term.value)}, and gradients flow through it into the network that is trained towards it",
        evidence=[Evidence("discounted term of the target", source_text(context, term.value))],
        related=[(term.value, "the term is here")],
        fix=Fix(
            title="keep the target constant",
            safe=False,
            instruction="compute the target under torch.no_grad(), or detach it",
            expected="the prediction moves to the target, and not the target to the prediction",
        ),
    )
