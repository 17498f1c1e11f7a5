"""The entropy of the policy is added to the loss instead of taken from it.

## What it does
Adds up the terms of a loss that holds `log_prob` of a distribution and looks for the distribution's `entropy()` with a positive factor.

## Why
The entropy bonus keeps the policy exploring, so it is subtracted from a loss that is minimised.
With a plus the optimizer makes the policy deterministic as fast as it can: exploration ends in the first updates, and the return stays where it happens to be.

## Fix
Subtract the entropy: `loss = policy_loss - coefficient * entropy`.

## When to ignore
When the entropy of the policy is meant to shrink.

## References
- Williams and Peng, "Function optimization using connectionist reinforcement learning algorithms", 1991; Mnih et al., "Asynchronous methods for deep reinforcement learning", 2016, section 4
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.tensors import operation
from preflight.check.queries.terms import Term, loss_terms
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="policy-entropy-minimised",
    code="POL001",
    severity="warning",
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
"""

BAD = (
    f"""{_HEAD}
for states, actions, advantages in rollouts:
    pi = Categorical(logits=policy(states))
    loss = -(pi.log_prob(actions) * advantages).mean() + 0.01 * pi.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--ent-coef", type=float, default=0.01)
args = parser.parse_args()
def evaluate(states, actions):
    pi = Categorical(logits=policy(states))
    return pi.log_prob(actions), pi.entropy()
for states, actions, old, advantages in rollouts:
    log_prob, entropy = evaluate(states, actions)
    ratio = (log_prob - old).exp()
    policy_loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    optimizer.zero_grad()
    (policy_loss + args.ent_coef * entropy.mean()).backward()
    optimizer.step()
""",
    f"""{_HEAD}
class Agent:
    beta = 0.001
    def loss(self, pi, actions, returns):
        bonus = self.beta * torch.mean(pi.entropy())
        return torch.mean(-pi.log_prob(actions) * returns) - (-bonus)
agent = Agent()
for states, actions, returns in rollouts:
    optimizer.zero_grad()
    agent.loss(Categorical(logits=policy(states)), actions, returns).backward()
    optimizer.step()
""",
)

GOOD = (
    f"""{_HEAD}
for states, actions, advantages in rollouts:
    pi = Categorical(logits=policy(states))
    entropy_loss = -pi.entropy().mean()
    loss = -(pi.log_prob(actions) * advantages).mean() + 0.01 * entropy_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_HEAD}
for states in batches:
    loss = Categorical(logits=policy(states)).entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the sign of each entropy."""
    told: set[int] = set()
    for terms in loss_terms(context):
        for term in terms:
            if _is_entropy(term) and term.factor > 0 and id(term.value) not in told and _acts(terms):
                told.add(id(term.value))
                yield _finding(context, term)


def _is_entropy(term: Term) -> bool:
    return isinstance(term.value, Obj) and operation(term.value) == "entropy" and term.value.name == ".entropy"


def _acts(terms: list[Term]) -> bool:
    """Whether the loss holds the probability of actions."""
    return any(isinstance(v, Obj) and v.name == ".log_prob" for term in terms for v in provenance(term.value))


def _finding(context: Context, term: Term) -> Finding:
    return context.finding(
        RULE,
        term.value,
        f"the entropy of the policy enters the loss with the factor +{term.factor:g}: it is made small, and exploration ends",
        evidence=[
            Evidence("factor of the entropy in the loss", term.factor, arithmetic="a bonus has a factor below 0")
        ],
        fix=Fix(
            title="subtract the entropy",
            safe=False,
            instruction="write loss = policy_loss - coefficient * entropy",
            expected="the policy keeps exploring",
        ),
    )
