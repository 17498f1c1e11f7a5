"""The clipped objective of PPO takes the better of the two ratios instead of the worse, or is minimised.

## What it does
Finds `min` or `max` of the product of a probability ratio with an advantage and of its clipped version, and compares it with the sign it has in the loss.

## Why
PPO maximises `min(ratio * A, clip(ratio) * A)`, the worse of the two, so the loss is its negative, or `max(-ratio * A, -clip(ratio) * A)`.
With the other of `min` and `max` the clip never holds an update back; with the other sign the policy learns to avoid what was good.

## Fix
Write `-torch.min(ratio * A, ratio.clamp(1 - e, 1 + e) * A).mean()`.

## When to ignore
When the advantages themselves are costs, to be made small.

## References
- Schulman et al., "Proximal policy optimization algorithms", 2017, equation 7
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import VIEWS, operand, operation, origin, source_text
from preflight.check.queries.terms import Term, factors, loss_terms, number, operands
from preflight.check.rule import Rule
from preflight.source.values import Obj, Unknown, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="clipped-surrogate-reversed",
    code="POL002",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("loss", "reinforcement"),
)

_HEAD = """
import torch
from torch import nn
from torch.distributions import Categorical
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters())
def ratio_of(states, actions, old):
    return (Categorical(logits=policy(states)).log_prob(actions) - old).exp()
"""

BAD = (
    f"""{_HEAD}
for states, actions, old, adv in rollouts:
    ratio = ratio_of(states, actions, old)
    loss = torch.min(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--clip", type=float, default=0.2)
args = parser.parse_args()
for states, actions, old, adv in rollouts:
    ratio = ratio_of(states, actions, old)
    surr1 = ratio * adv
    surr2 = ratio.clamp(1 - args.clip, 1 + args.clip) * adv
    optimizer.zero_grad()
    torch.min(surr1, surr2).mean().backward()
    optimizer.step()
""",
    f"""{_HEAD}
def surrogate(ratio, adv):
    return -torch.max(ratio * adv, torch.clip(ratio, 0.9, 1.1) * adv)
for states, actions, old, adv in rollouts:
    loss = surrogate(ratio_of(states, actions, old), adv).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)

GOOD = (
    f"""{_HEAD}
for states, actions, old, adv in rollouts:
    ratio = ratio_of(states, actions, old)
    loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
for states, actions, old, adv, values, old_values, returns in rollouts:
    ratio = ratio_of(states, actions, old)
    pg = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
    clipped = old_values + torch.clamp(values - old_values, -0.2, 0.2)
    loss = pg + 0.5 * torch.max((values - returns) ** 2, (clipped - returns) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
import collecting
def policy_loss(advantages, ratio):
    return torch.max(-advantages * ratio, -advantages * torch.clamp(ratio, 0.8, 1.2)).mean()
def train(data, chosen):
    for _ in range(4):
        ratio = ratio_of(data["states"], data["actions"], data["old"])
        optimizer.zero_grad()
        policy_loss(data["advantages"][chosen], ratio).backward()
        optimizer.step()
train(*collecting.rollout())
""",
)

_WORSE, _BETTER = frozenset({"min", "minimum"}), frozenset({"max", "maximum"})


def check(context: Context) -> Iterator[Finding]:
    """Compare each choice between ratios with the sign it has in the loss."""
    told: set[int] = set()
    for term in (t for terms in loss_terms(context) for t in terms):
        made = term.value
        name = operation(made)
        if not isinstance(made, Obj) or name not in _WORSE | _BETTER or term.factor == 0 or id(made) in told:
            continue
        sign = _surrogate(made)
        if sign is None:
            continue
        # Of the objective: the loss falls where it rises, and the choice is the worse one.
        rises = sign * term.factor < 0
        worse = (name in _WORSE) is (sign > 0)
        if not (rises and worse):
            told.add(id(made))
            yield _finding(context, made, term, rises)


def _surrogate(made: Obj) -> int | None:
    """The sign of both products with a ratio that a choice is between, one of them clipped; None for other choices."""
    pair = operands(made)
    if pair is None:
        return None
    found = [(sign_of(p), *_ratio(p)) for p in pair]
    kinds = {(ratio, clipped) for _, ratio, clipped in found}
    if kinds != {(True, False), (True, True)} or found[0][0] != found[1][0]:
        return None
    return found[0][0] or None


def _ratio(value: Value) -> tuple[bool, bool]:
    """Whether a product holds a ratio of probabilities, and whether the ratio is clipped."""
    for factor in factors(value):
        base = origin(factor, VIEWS)
        clipped = operation(base) in ("clamp", "clip")
        inner = origin(operand(base), VIEWS) if clipped and base is not None else base
        if operation(inner) == "exp":
            return True, clipped
    return False, False


def sign_of(value: Value) -> int:
    """The sign that is written around and inside a product; 0 where a factor is not known, nor what it was negated by."""
    base = settle(value)
    if isinstance(base, Unknown):
        return 0
    name = operation(base)
    if isinstance(base, Obj) and (name in VIEWS or name == "neg"):
        inner = operand(base)
        return (-1 if name == "neg" else 1) * (sign_of(inner) if inner is not None else 1)
    pair = operands(base) if isinstance(base, Obj) and name in ("*", "mul") else None
    if pair is not None:
        return sign_of(pair[0]) * sign_of(pair[1])
    told = number(base)
    return -1 if told is not None and told < 0 else 1


def _finding(context: Context, made: Obj, term: Term, rises: bool) -> Finding:
    what = (
        "it takes the better of both, so the clip holds no update back"
        if rises
        else "the loss falls where the objective falls: the policy learns to avoid good actions"
    )
    return context.finding(
        RULE,
        made,
        f"the clipped objective is used the wrong way round: {what}",
        evidence=[
            Evidence("objective", source_text(context, made)),
            Evidence(
                "factor in the loss", term.factor, arithmetic="loss = -min(r A, clip(r) A) = max(-r A, -clip(r) A)"
            ),
        ],
        fix=Fix(
            title="take the worse of both, and maximise it",
            safe=False,
            instruction="write loss = -torch.min(ratio * A, ratio.clamp(1 - e, 1 + e) * A).mean()",
            expected="updates are held back where the ratio leaves the clip range",
        ),
    )
