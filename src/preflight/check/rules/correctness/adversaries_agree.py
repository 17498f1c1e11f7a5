"""The generator and the critic of an adversarial training want the same.

## What it does
For two optimizers of one loop, one of a critic and one of a generator, works out which way each loss pushes the critic's score: by the constant labels of a cross-entropy or squared error, or by the sign with which the score enters.
Reports a generator whose loss pushes the score of generated samples the way the critic's does, and a critic whose losses push real and generated samples the same way.

## Why
The generator has to raise the score that the critic lowers.
Where both want the same, the generator learns to be told apart, and the images stay noise; where the critic is taught one answer for both, it gives that answer always.

## Fix
Give the generator's loss the label of real samples, or the other sign.

## When to ignore
When the two are not adversaries.

## References
- Goodfellow et al., "Generative adversarial nets", 2014, section 3; Arjovsky et al., "Wasserstein GAN", 2017, algorithm 1
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.adversaries import Push, games
from preflight.check.queries.tensors import source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="adversaries-agree",
    code="GAN001",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("loss", "gan"),
)

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
G, D = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
bce = nn.BCEWithLogitsLoss()
for x in loader:
    real, fake = torch.ones(len(x), 1), torch.zeros(len(x), 1)
    made = G(torch.randn(len(x), 2))
    update(opt_d, bce(D(x), real) + bce(D(made.detach()), fake))
    update(opt_g, bce(D(made), fake))
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--weight", type=float, default=1.0)
args = parser.parse_args()
def critic_loss(x, made):
    return D(x).mean() - D(made).mean()
for x in loader:
    made = G(torch.randn(len(x), 2))
    update(opt_d, args.weight * critic_loss(x, made.detach()))
    update(opt_g, -D(made).mean())
""",
    f"""{_HEAD}
class Labels:
    def __init__(self, n):
        self.values = torch.full((n, 1), 1.0)
for x in loader:
    label = Labels(len(x)).values
    real_loss = F.binary_cross_entropy(torch.sigmoid(D(x)), label)
    made = G(torch.randn(len(x), 2))
    fake_loss = F.binary_cross_entropy(torch.sigmoid(D(made.detach())), label)
    update(opt_d, (real_loss + fake_loss) / 2)
    update(opt_g, F.binary_cross_entropy(torch.sigmoid(D(made)), label))
""",
)

GOOD = (
    f"""{_HEAD}
bce = nn.BCEWithLogitsLoss()
for x in loader:
    label = torch.full((len(x), 1), 1.0)
    made = G(torch.randn(len(x), 2))
    real_loss = bce(D(x), label)
    label.fill_(0.0)
    update(opt_d, real_loss + bce(D(made.detach()), label))
    label.fill_(1.0)
    update(opt_g, bce(D(made), label))
""",
    f"""{_HEAD}
for x in loader:
    made = G(torch.randn(len(x), 2))
    update(opt_d, F.relu(1 - D(x)).mean() + F.relu(1 + D(made.detach())).mean())
    update(opt_g, -D(made).mean())
    update(opt_g, torch.log(1 - torch.sigmoid(D(G(x[:, :2])))).mean())
""",
    f"""{_HEAD}
for s, a, r, s2 in buffer:
    update(opt_d, F.mse_loss(D(a), r))
    update(opt_g, -D(G(s)).mean())
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the ways in which the losses push the critic's score."""
    told: set[int] = set()
    for game in games(context):
        real, generated, fooling = (_way(p) for p in (game.real, game.generated, game.fooling))
        if generated is None:
            continue
        if fooling == generated and real != generated and id(game.fooling[0].term.value) not in told:
            told.add(id(game.fooling[0].term.value))
            yield _finding(
                context,
                game.fooling[0],
                game.generated[0],
                "the generator's loss pushes the score of generated samples the way the critic's loss does: it learns to be told apart",
                "give the generator's loss the label of real samples, or the other sign",
            )
        elif real == generated and id(game.generated[0].term.value) not in told:
            told.add(id(game.generated[0].term.value))
            yield _finding(
                context,
                game.generated[0],
                game.real[0],
                "the critic's losses push the scores of real and of generated samples the same way: it learns one answer for both",
                "give generated samples the other label, or the other sign",
            )


def _way(pushes: list[Push]) -> int | None:
    """The one way in which all terms push, or None."""
    ways = {p.sign for p in pushes}
    return ways.pop() if len(ways) == 1 else None


def _finding(context: Context, wrong: Push, other: Push, what: str, instruction: str) -> Finding:
    shown = "rises" if wrong.sign > 0 else "falls"
    return context.finding(
        RULE,
        wrong.term.value,
        what,
        evidence=[
            Evidence("term", source_text(context, wrong.term.value), arithmetic=f"{shown} with the score"),
            Evidence("other term", source_text(context, other.term.value), arithmetic=f"{shown} with the score"),
        ],
        related=[(other.term.value, "the other term is here")],
        fix=Fix(
            title="let them want the opposite",
            safe=False,
            instruction=instruction,
            expected="the generator learns to make what the critic takes for real",
        ),
    )
