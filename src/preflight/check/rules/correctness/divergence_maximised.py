"""The divergence of a variational autoencoder is made large instead of small.

## What it does
Adds up the terms of the training loss with their signs and looks for the divergence of a Gaussian from the standard normal, `mu^2 + exp(logvar) - logvar - 1`, that enters with a minus.

## Why
The loss of a variational autoencoder is the reconstruction error plus the divergence.
With the sign turned, the optimizer pushes the posterior away from the prior: `exp(logvar)` grows without bound and the loss falls to minus infinity, or the samples of the decoder stay noise.

## Fix
Add `-0.5 * sum(1 + logvar - mu^2 - exp(logvar))` to the loss.

## When to ignore
When a loss is meant to push a distribution away from the standard normal.

## References
- Kingma and Welling, "Auto-Encoding Variational Bayes", 2014, appendix B
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.gaussians import divergences
from preflight.check.queries.tensors import source_text
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="divergence-maximised",
    code="VAE001",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("loss", "vae"),
)

_MODEL = """
import torch
from torch import nn
import torch.nn.functional as F
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu, self.logvar, self.decoder = nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 8)
    def forward(self, x):
        mu, logvar = self.mu(x), self.logvar(x)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.decoder(z), mu, logvar
model = VAE()
optimizer = torch.optim.Adam(model.parameters())
"""

BAD = (
    f"""{_MODEL}
for x in loader:
    out, mu, logvar = model(x)
    kl = 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = F.mse_loss(out, x, reduction="sum") + kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    f"""{_MODEL}
def objective(out, x, mu, logvar):
    divergence = -0.5 * (1 + logvar - mu ** 2 - torch.exp(logvar)).sum(dim=1).mean()
    return F.mse_loss(out, x) - divergence
for x in loader:
    out, mu, logvar = model(x)
    optimizer.zero_grad()
    objective(out, x, mu, logvar).backward()
    optimizer.step()
""",
    f"""{_MODEL}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--beta", type=float, default=-4.0)
args = parser.parse_args()
for x in loader:
    out, mu, logvar = model(x)
    kl = torch.mean(mu ** 2 + logvar.exp() - logvar - 1)
    optimizer.zero_grad()
    (F.l1_loss(out, x) + args.beta * kl).backward()
    optimizer.step()
""",
)

GOOD = (
    f"""{_MODEL}
for x in loader:
    out, mu, logvar = model(x)
    elbo = -F.mse_loss(out, x) + 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    optimizer.zero_grad()
    (-elbo).backward()
    optimizer.step()
""",
    f"""{_MODEL}
climber = torch.optim.Adam(model.parameters(), maximize=True)
for x in loader:
    out, mu, logvar = model(x)
    elbo = -F.mse_loss(out, x) + 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    climber.zero_grad()
    elbo.backward()
    climber.step()
""",
    f"""{_MODEL}
for x in loader:
    out, mu, logvar = model(x)
    loss = (0.5 * logvar + 0.5 * (x.mean() - mu) ** 2 / logvar.exp()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the sign of each divergence."""
    for found in divergences(context):
        if found.variance.factor >= 0:
            continue
        yield context.finding(
            RULE,
            found.variance.value,
            f"{source_text(context, found.variance.value)} enters the loss with the factor {found.variance.factor:g}:"
            " training makes the divergence large, and the loss falls without bound",
            evidence=[
                Evidence(
                    "factor of exp(logvar) in the loss",
                    found.variance.factor,
                    arithmetic="KL = 0.5 * (mu^2 + exp(logvar) - logvar - 1)",
                ),
                Evidence("logarithm of the variance", source_text(context, found.log_variance)),
            ],
            fix=Fix(
                title="add the divergence to the loss",
                safe=False,
                instruction="turn the sign: loss = reconstruction - 0.5 * sum(1 + logvar - mu^2 - exp(logvar))",
                expected="the posterior stays near the prior, and samples of the prior decode",
            ),
        )
