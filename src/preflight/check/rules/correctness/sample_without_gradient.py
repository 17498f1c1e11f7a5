"""A latent is drawn in a way that gradients do not pass.

## What it does
Finds `.sample()` of a distribution, and `torch.normal(mean, std)`, whose parameters come from a trained network and whose draw goes on through layers to the training loss, where nothing asks for the draw's `log_prob`.

## Why
`sample()` is made without gradients.
What made the mean and the deviation learns nothing from what the draw was used for: an encoder follows the divergence alone, and its latents come to say nothing of the input.

## Fix
Draw with `rsample()`, or write `mu + std * torch.randn_like(std)`.

## When to ignore
When the draw is meant to be data.

## References
- PyTorch documentation, torch.distributions, "Pathwise derivative"
- Kingma and Welling, "Auto-Encoding Variational Bayes", 2014, section 2.4
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import reached
from preflight.check.queries.tensors import grad_off, source_text
from preflight.check.queries.updates import updates
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="sample-without-gradient",
    code="VAE004",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer"),
    layer="D",
    tags=("autograd", "vae"),
)

_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
from torch.distributions import Normal
encoder, decoder = nn.Linear(8, 4), nn.Linear(2, 8)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
def train(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    z = Normal(mu, torch.exp(0.5 * logvar)).sample()
    train(F.mse_loss(decoder(z), x))
""",
    f"""{_HEAD}
def reparameterize(mu, logvar):
    return torch.normal(mu, torch.exp(0.5 * logvar))
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    train(F.mse_loss(decoder(reparameterize(mu, logvar)), x))
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--scale", type=float, default=0.1)
args = parser.parse_args()
class Model(nn.Module):
    def forward(self, x):
        mu = encoder(x)[:, :2]
        q = torch.distributions.Normal(mu, args.scale)
        return decoder(q.sample()), mu
model = Model()
for x in loader:
    out, mu = model(x)
    train((out - x).pow(2).mean() + mu.pow(2).mean())
""",
)

GOOD = (
    f"""{_HEAD}
for x in loader:
    mu, logvar = encoder(x).chunk(2, dim=1)
    q = Normal(mu, torch.exp(0.5 * logvar))
    train(F.mse_loss(decoder(q.rsample()), x))
    a = q.sample()
    train(-(q.log_prob(a) * F.relu(decoder(a)).mean()).mean())
""",
    f"""{_HEAD}
for x in loader:
    t = Normal(torch.zeros(len(x), 2), 1.0).sample()
    with torch.no_grad():
        z = torch.normal(encoder(x)[:, :2], 0.1)
    train(F.mse_loss(decoder(t), x) + F.mse_loss(decoder(z), x) + encoder(x).pow(2).mean())
""",
)

_DISTRIBUTIONS = (
    "Normal",
    "LogNormal",
    "MultivariateNormal",
    "Laplace",
    "Gumbel",
    "Beta",
    "Gamma",
    "Dirichlet",
    "Uniform",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the draws that losses come from."""
    members = frozenset(i for u in updates(context) for i in u.holding.members)
    told: set[int] = set()
    for event, parameters, holder in _draws(context):
        drawn = event.result
        if drawn is None or grad_off(event.context) or event.context.shadow or id(event.node) in told:
            continue
        if holder is not None and _scored(context, holder):
            continue
        trained = [p for p in parameters if members & reached([p]).keys()]
        if not trained or not _goes_on(context, drawn, members):
            continue
        told.add(id(event.node))
        yield _finding(context, event, trained[0])


def _draws(context: Context) -> Iterator[tuple[Event, list[Value], Obj | None]]:
    """Each draw, the parameters of its distribution, and the distribution."""
    for event in context.trace.calls(".sample"):
        base = settle(event.receiver) if event.receiver is not None else None
        library, _, name = base.name.rpartition(".") if isinstance(base, Obj) and base.cls is None else ("", "", "")
        if isinstance(base, Obj) and library.startswith("torch.distributions") and name in _DISTRIBUTIONS:
            yield event, [*base.args, *base.kwargs.values()], base
    for event in context.trace.calls("torch.normal"):
        yield event, [v for v in (event.argument(0, "mean"), event.argument(1, "std")) if v is not None], None


def _scored(context: Context, holder: Obj) -> bool:
    """Whether something asks a distribution for the probability of a draw."""
    return any(settle(e.receiver) is holder for e in context.trace.calls(".log_prob") if e.receiver is not None)


def _goes_on(context: Context, drawn: Value, members: frozenset[int]) -> bool:
    """Whether a trained module is called with what was made of the draw, on the way to a loss."""
    behind = [loop.behind_losses for loop in context.reading.loops]
    if not any(id(drawn) in losses for losses in behind) or isinstance(drawn, Known):
        return False
    for event in context.trace.calls("()"):
        base = settle(event.receiver) if event.receiver is not None else None
        if base is None or id(base) not in members or not event.args or event.result is None:
            continue
        if _made_of(event.args[0], drawn) and any(id(event.result) in losses for losses in behind):
            return True
    return False


def _made_of(value: Value, drawn: Value) -> bool:
    """Whether a value is the draw, rearranged or joined with others."""
    return any(part is drawn for part in provenance(value, 200))


def _finding(context: Context, event: Event, parameter: Value) -> Finding:
    return context.finding(
        RULE,
        event,
        "the draw cuts the gradient: what made its mean and deviation learns nothing from where the draw goes",
        evidence=[
            Evidence("parameter of the distribution", source_text(context, parameter)),
            Evidence("gradient through the draw", 0),
        ],
        fix=Fix(
            title="draw with gradients",
            safe=False,
            instruction="use rsample(), or mu + std * torch.randn_like(std)",
            expected="the network before the draw learns from what comes after it",
        ),
    )
