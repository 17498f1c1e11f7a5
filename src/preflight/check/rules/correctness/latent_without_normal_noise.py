"""A latent is made of mean and deviation without normal noise.

## What it does
Where the loss holds the divergence of a Gaussian with the logarithm of variance `v`, looks at what `exp(0.5 * v)` is used for: added to the mean as it is, or multiplied by uniform noise.

## Why
A sample is the mean plus the standard deviation times normal noise.
Without the noise the latent is a fixed function of the input: the model is an autoencoder whose prior is never seen by the decoder.
Uniform noise of `torch.rand` is never negative, has mean 0.5 and deviation 0.29, and the divergence is not that of what is drawn.

## Fix
Write `z = mu + std * torch.randn_like(std)`.

## When to ignore
Never while the loss counts the divergence of a Gaussian.

## References
- Kingma and Welling, "Auto-Encoding Variational Bayes", 2014, section 2.4
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.gaussians import divergences, seen_through
from preflight.check.queries.tensors import grad_off, graph, operand, operation, source_text
from preflight.check.queries.terms import factors, number, operands
from preflight.check.rule import Rule
from preflight.source.values import Obj, Value
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="latent-without-normal-noise",
    code="VAE003",
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
def train(out, x, mu, logvar):
    optimizer.zero_grad()
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    (F.mse_loss(out, x, reduction="sum") + kl).backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    std = torch.exp(0.5 * logvar)
    train(decoder(mu + std), x, mu, logvar)
""",
    f"""{_HEAD}
def reparameterize(mu, logvar):
    std = logvar.mul(0.5).exp()
    return mu + torch.rand_like(std) * std
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    train(decoder(reparameterize(mu, logvar)), x, mu, logvar)
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
args = parser.parse_args()
class Draw(nn.Module):
    def forward(self, mu, logvar):
        eps = torch.rand(mu.size(), device=args.device)
        return torch.exp(logvar / 2).mul(eps).add(mu)
draw = Draw()
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    train(decoder(draw(mu, logvar)), x, mu, logvar)
""",
)

GOOD = (
    f"""{_HEAD}
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    std = torch.exp(0.5 * logvar)
    train(decoder(mu + std * torch.randn_like(std)), x, mu, logvar)
""",
    f"""{_HEAD}
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    std = torch.exp(0.5 * logvar)
    upper, dropped = (mu + 2 * std).detach(), std * (torch.rand(2) > 0.5)
    train(decoder(mu + std * torch.randn_like(std)), x, mu, logvar)
""",
)

_UNIFORM = frozenset({"rand", "rand_like", "uniform_"})


def check(context: Context) -> Iterator[Finding]:
    """Look at what each standard deviation is multiplied by and added to."""
    variances = {id(d.log_variance) for d in divergences(context)}
    if not variances:
        return
    values = graph(context)
    for made in values.made("*", "mul"):
        parts = [seen_through(f) for f in factors(made)]
        noise = next((p for p in parts if operation(p) in _UNIFORM), None)
        if noise is not None and any(_deviation(p, variances) for p in parts) and not grad_off(made.context):
            yield _finding(
                context,
                made,
                f"the deviation is multiplied by {source_text(context, noise)}, which is uniform and not normal noise",
            )
    for made in values.made("+", "add"):
        pair = operands(made)
        if pair is None or not values.trains(made):
            continue
        parts = [seen_through(p) for p in pair]
        if any(_deviation(p, variances) for p in parts):
            yield _finding(context, made, "the deviation is added to the mean without noise: the latent is no sample")


def _deviation(value: Obj | None, variances: set[int]) -> bool:
    """Whether a value is exp(0.5 * v) of a known logarithm of variance."""
    if value is None or operation(value) != "exp":
        return False
    inner = seen_through(operand(value))
    pair = operands(inner) if inner is not None else None
    name = operation(inner)
    if pair is None or name not in ("*", "mul", "/", "div"):
        return False
    half = 2.0 if name in ("/", "div") else 0.5
    ways: list[tuple[Value, Value]] = [pair] if half == 2.0 else [pair, (pair[1], pair[0])]
    return any(
        number(scale) == half and (base := seen_through(held)) is not None and id(base) in variances
        for held, scale in ways
    )


def _finding(context: Context, place: Obj, what: str) -> Finding:
    return context.finding(
        RULE,
        place,
        f"{what}, and the loss counts the divergence of a Gaussian",
        evidence=[
            Evidence("latent", source_text(context, place), arithmetic="z = mu + std * eps with eps from N(0, 1)")
        ],
        fix=Fix(
            title="draw normal noise",
            safe=False,
            instruction="write z = mu + std * torch.randn_like(std)",
            expected="the decoder learns to decode samples of the prior",
        ),
    )
