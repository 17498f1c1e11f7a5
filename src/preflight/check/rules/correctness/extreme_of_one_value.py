"""The smaller or the larger of two values is taken, and both are one.

## What it does
Finds `torch.min`, `torch.max`, `torch.minimum` and `torch.maximum` whose two tensors are written alike, word for word.

## Why
The result is that one value: nothing is compared.
It comes from a line that was copied and not changed to its end, as in the pessimistic value of two critics: `torch.min(q1(s, a), q1(s, a))` asks the first one twice, and the second one, which is trained at full price, has no say.

## Fix
Put the other value on one of the sides.

## When to ignore
When both sides are drawn at random, so that each time they are evaluated they differ.
Calls without arguments, names that speak of drawing, what is computed by such functions, and networks with dropout that are called twice are left alone.

## References
- Fujimoto et al., "Addressing Function Approximation Error in Actor-Critic Methods" (2018), section 4.2
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.modes import has_modes
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="extreme-of-one-value",
    code="LOS019",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("loss",),
)

_HEAD = """
import torch
from torch import nn
q1, q2, policy = nn.Linear(6, 1), nn.Linear(6, 1), nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for state in loader:
    pair = torch.cat([state, policy(state)], -1)
"""
_TAIL = """
    optimizer.zero_grad()
    (-value.mean()).backward()
    optimizer.step()
"""

BAD = (
    f"{_HEAD}    value = torch.min(q1(pair), q1(pair)){_TAIL}",
    f"{_HEAD}    first, second = q1(pair), q2(pair)\n    value = torch.minimum(second, second){_TAIL}",
    """
import torch
from torch import nn
class Agent:
    def __init__(self):
        self.q1, self.q2, self.policy = nn.Linear(6, 1), nn.Linear(6, 1), nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
    def update(self, state):
        pair = torch.cat([state, self.policy(state)], -1)
        loss = -torch.max(self.q2(pair), other=self.q2(pair)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
agent = Agent()
for state in loader:
    agent.update(state)
""",
)
GOOD = (
    f"{_HEAD}    value = torch.min(q1(pair), q2(pair)){_TAIL}",
    f"{_HEAD}    value = torch.max(q1(pair), 1)[0]{_TAIL}",
    f"{_HEAD}    value = q1(pair) + torch.max(torch.rand(3), torch.rand(3)).mean(){_TAIL}",
    f"{_HEAD.replace('nn.Linear(6, 1), nn.Linear(6, 1)', 'nn.Linear(6, 1), nn.Sequential(nn.Dropout(), nn.Linear(6, 1))')}"
    f"    value = torch.min(q2(pair), q2(pair)){_TAIL}",
    f"""
def blurred(t):
    return t * torch.empty_like(t).bernoulli_(0.9)
{_HEAD}    value = torch.max(q1(blurred(pair)), q1(blurred(pair))){_TAIL}""",
    f"{_HEAD}    draw = torch.distributions.Normal(q1(pair), 1.0)\n    value = torch.min(draw.rsample(), draw.rsample()){_TAIL}",
    f"{_HEAD}    value = torch.min(q1(pair), q1(pair)){_TAIL}".replace(
        "nn.Linear(6, 1)", "nn.Sequential(nn.Dropout(0.1), nn.Linear(6, 1))", 1
    ),
)

_EXTREMES = ("torch.min", "torch.max", "torch.minimum", "torch.maximum")
_DRAWN = re.compile(
    r"rand|sampl|draw|next|noise|normal|augment|dropout|pop|bernoulli|uniform|multinomial|poisson|exponential|cauchy",
    re.IGNORECASE,
)


def check(context: Context) -> Iterator[Finding]:
    """Look for two sides that are written alike."""
    told: set[int] = set()
    for event in context.trace.calls(*_EXTREMES):
        text = _both(event)
        if text is not None and _drawn_twice(event):
            continue
        if text is not None and id(event.node) not in told:
            told.add(id(event.node))
            yield context.finding(
                RULE,
                event,
                f"{event.name} is given {text} twice: nothing is compared, and the value that was meant has no say",
                evidence=[Evidence("the value on both sides", text)],
                fix=Fix(
                    title="compare with the value that was meant",
                    safe=False,
                    instruction="one of the two sides was repeated: put the other value there",
                    expected="the smaller or larger one of two values",
                ),
            )


def _drawn_twice(event: Event) -> bool:
    """Whether something random lies behind the sides, which are computed one after the other."""
    sides = [settle(one) for one in (*event.args, *event.kwargs.values())]
    if len({id(one) for one in sides}) < len(sides):
        return False  # one value, which was computed before
    behind = [{id(part): part for part in provenance(side, 200)} for side in sides]
    common = set.intersection(*(set(parts) for parts in behind))  # drawn once, for both
    parts = [part for own in behind for key, part in own.items() if key not in common and isinstance(part, Obj)]
    networks = [part.receiver for part in parts if part.name == "()" and part.receiver is not None]
    return any(_DRAWN.search(part.name) for part in parts) or any(_open_or_modal(one) for one in networks)


def _open_or_modal(network: Value) -> bool:
    """Whether a network is of layers that are not seen, or has some that behave otherwise in training."""
    found = settle(network)
    return not isinstance(found, Obj) or has_modes(found) is not False


def _both(event: Event) -> str | None:
    """What stands on both sides, as it is written; None where they differ, or may differ when they are computed."""
    node = event.node
    if not isinstance(node, ast.Call) or any(isinstance(one, ast.Starred) for one in node.args):
        return None
    given = [*node.args, *(one.value for one in node.keywords if one.arg == "other")]
    if len(given) != 2 or ast.dump(given[0]) != ast.dump(given[1]):
        return None
    text = ast.unparse(given[0])
    parts = list(ast.walk(given[0]))
    bare = any(isinstance(one, ast.Call) and not one.args and not one.keywords for one in parts)
    return None if bare or isinstance(given[0], ast.Constant) or _DRAWN.search(text) else text
