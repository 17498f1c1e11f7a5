"""A latent is drawn with the variance where the standard deviation belongs.

## What it does
Where the divergence of the loss takes `exp(v)` for the variance, looks for a draw that multiplies its noise by `exp(v)` too.

## Why
A sample of a Gaussian is the mean plus the standard deviation times normal noise, and the deviation is `exp(0.5 * logvar)`.
With `exp(logvar)` the decoder is trained on a distribution that is not the one whose divergence is paid for: wherever the variance is not 1 the bound does not hold.

## Fix
Write `std = torch.exp(0.5 * logvar)`.

## When to ignore
Never: one quantity cannot be both.

## References
- Kingma and Welling, "Auto-Encoding Variational Bayes", 2014, section 2.4
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.gaussians import divergences, seen_through
from preflight.check.queries.tensors import graph, operand, operation, source_text
from preflight.check.queries.terms import factors
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="variance-as-deviation",
    code="VAE002",
    severity="error",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("loss", "vae"),
)

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
encoder, decoder = nn.Linear(8, 4), nn.Linear(2, 8)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
def divergence(mu, logvar):
    return -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
def train(out, x, mu, logvar):
    optimizer.zero_grad()
    (F.mse_loss(out, x, reduction="sum") + divergence(mu, logvar)).backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    z = mu + torch.exp(logvar) * torch.randn_like(mu)
    train(decoder(z), x, mu, logvar)
""",
    f"""{_HEAD}
def reparameterize(mu, logvar):
    std = logvar.exp()
    eps = torch.randn(mu.shape)
    return eps.mul(std).add(mu)
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    train(decoder(reparameterize(mu, logvar)), x, mu, logvar)
""",
    f"""{_HEAD}
import argparse
from torch.distributions import Normal as N
parser = argparse.ArgumentParser()
parser.add_argument("--draws", type=int, default=1)
args = parser.parse_args()
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    z = N(mu, logvar.exp()).rsample((args.draws,)).mean(0)
    train(decoder(z), x, mu, logvar)
""",
)

GOOD = (
    f"""{_HEAD}
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
    train(decoder(z), x, mu, logvar)
""",
    f"""{_HEAD}
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    z = mu + logvar.exp().sqrt() * torch.randn_like(mu)
    train(decoder(z), x, mu, logvar)
""",
)

DRAWS = frozenset({"randn_like", "randn", "normal_", "normal"})


def check(context: Context) -> Iterator[Finding]:
    """Look for noise that is multiplied by the exponential of the logarithm of the variance."""
    found = {id(d.log_variance): d for d in divergences(context)}
    if not found:
        return
    for made in graph(context).made("*", "mul"):
        parts = [seen_through(f) for f in factors(made)]
        if any(operation(p) in DRAWS for p in parts):
            yield from _judged(context, made, parts, set(found))
    for event in context.trace.calls("torch.distributions.Normal", "torch.distributions.normal.Normal"):
        if isinstance(event.result, Obj):
            yield from _judged(context, event.result, [seen_through(event.argument(1, "scale"))], set(found))


def _judged(context: Context, drawn: Obj, parts: list[Obj | None], variances: set[int]) -> Iterator[Finding]:
    for part in parts:
        inner = seen_through(operand(part)) if part is not None and operation(part) == "exp" else None
        if part is None or inner is None or id(inner) not in variances:
            continue
        yield context.finding(
            RULE,
            drawn,
            f"{source_text(context, part)} is the variance in the divergence of the loss and the standard deviation of this draw:"
            " the deviation is exp(0.5 * logvar)",
            evidence=[
                Evidence(
                    "deviation of the draw",
                    source_text(context, part),
                    arithmetic="std = sqrt(exp(logvar)) = exp(0.5 * logvar)",
                )
            ],
            related=[(part, "it is computed here")],
            fix=Fix(
                title="draw with the standard deviation",
                safe=False,
                instruction="multiply the noise by torch.exp(0.5 * logvar)",
                expected="the decoder sees the distribution whose divergence the loss counts",
            ),
        )
