"""A distribution is given probabilities as logits, or logits as probabilities.

## What it does
Follows the argument of `Categorical`, `OneHotCategorical` and `Bernoulli` back: `logits=` that a soft-max or sigmoid made, and `probs=` (or the first argument) that comes right out of a linear or convolution layer.

## Why
Probabilities lie between 0 and 1; taken for logits of two actions, the surest policy is 73 % to 27 %, so the policy can never become sure.
Raw outputs are negative as often as not, and as probabilities they raise ValueError, or are silently rescaled where the checks are off.

## Fix
Give raw outputs as `logits=`, and what a soft-max made as `probs=`.

## When to ignore
Never where the values are what these operations give.

## References
- PyTorch documentation, torch.distributions.Categorical
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import VIEWS, operation, origin, source_text
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="wrong-kind-of-probabilities",
    code="POL003",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("loss", "reinforcement"),
)

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
from torch.distributions import Categorical, Bernoulli
policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
"""

BAD = (
    f"""{_HEAD}
for states, actions, returns in rollouts:
    pi = Categorical(logits=F.softmax(policy(states), dim=-1))
    (-pi.log_prob(actions) * returns).mean().backward()
""",
    f"""{_HEAD}
def distribution(states):
    return torch.distributions.Categorical(policy(states))
for states, actions, returns in rollouts:
    (-distribution(states).log_prob(actions) * returns).mean().backward()
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--dim", type=int, default=-1)
args = parser.parse_args()
class Actor(nn.Module):
    def forward(self, states):
        chances = torch.sigmoid(policy(states)).squeeze(args.dim)
        return Bernoulli(logits=chances)
actor = Actor()
for states, actions, returns in rollouts:
    (-actor(states).log_prob(actions) * returns).mean().backward()
""",
)

GOOD = (
    f"""{_HEAD}
for states, actions, returns in rollouts:
    a = Categorical(logits=policy(states))
    b = Categorical(F.softmax(policy(states), dim=-1))
    c = Bernoulli(probs=torch.sigmoid(policy(states)))
    d = Categorical(logits=F.log_softmax(policy(states), dim=-1))
    e = Categorical(probs=F.relu(policy(states)) + 1e-3)
    (-a.log_prob(actions) * returns).mean().backward()
""",
)

_NAMES = tuple(
    f"torch.distributions.{module}{name}"
    for module, name in (
        ("", "Categorical"), ("categorical.", "Categorical"), ("", "OneHotCategorical"), ("", "Bernoulli"),
        ("bernoulli.", "Bernoulli"), ("one_hot_categorical.", "OneHotCategorical"),
    )
)  # fmt: skip
_RAW = ("nn.Linear", "nn.Conv2d", "nn.LazyLinear")


def check(context: Context) -> Iterator[Finding]:
    """Look at what each distribution is made from."""
    for event in context.trace.calls(*_NAMES):
        probs, logits = event.argument(0, "probs"), event.argument(1, "logits")
        made = _origin(event, logits)
        if made is not None and operation(made) in ("softmax", "sigmoid"):
            what = f"what {operation(made)} makes is given as logits: the distribution can never become sure"
            yield _finding(context, event, made, what, "give it as probs=, or leave the activation out")
            continue
        made = _origin(event, probs)
        if made is not None and operation(made) in _RAW:
            what = "raw outputs are given as probabilities: negative ones raise ValueError"
            yield _finding(context, event, made, what, "give them as logits=")


def _origin(event: Event, value: Value | None) -> Obj | None:
    return origin(value, VIEWS, strict=event.context.shadow) if value is not None else None


def _finding(context: Context, event: Event, made: Obj, what: str, instruction: str) -> Finding:
    return context.finding(
        RULE,
        event,
        what,
        evidence=[Evidence("values", source_text(context, made))],
        related=[(made, "they are made here")],
        fix=Fix(
            title="give the values as what they are",
            safe=False,
            instruction=instruction,
            expected="the distribution is the one the network describes",
        ),
    )
