"""A penalty on gradients has no gradient itself.

## What it does
Finds a term of the training loss that is computed from the result of `torch.autograd.grad` without `create_graph=True`, and from nothing else that carries a gradient.

## Why
Without `create_graph` the gradients come back as plain numbers.
The penalty is added to the loss and its value is seen to fall or rise, but it moves no weight: the critic of a WGAN-GP is not held to a slope of one.

## Fix
Give `create_graph=True`.

## When to ignore
When the term is only to be shown in the sum.

## References
- Gulrajani et al., "Improved training of Wasserstein GANs", 2017
- PyTorch documentation of torch.autograd.grad
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import reached
from preflight.check.queries.tensors import CUTS, operation, source_text
from preflight.check.queries.terms import Term, loss_terms
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj, Value, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="penalty-without-graph",
    code="AUT009",
    severity="error",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("autograd", "gan"),
)

_HEAD = """
import torch
from torch import nn
D = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(D.parameters())
def update(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
for real, fake in loader:
    x = (0.5 * real + 0.5 * fake).requires_grad_(True)
    d = D(x)
    grad = torch.autograd.grad(d, x, grad_outputs=torch.ones_like(d))[0]
    update(D(fake).mean() - D(real).mean() + 10 * ((grad.norm(2, dim=1) - 1) ** 2).mean())
""",
    f"""{_HEAD}
from torch.autograd import grad as gradient
def penalty(x):
    x.requires_grad_(True)
    (g,) = gradient(outputs=D(x).sum(), inputs=x, retain_graph=True)
    return g.pow(2).sum(1).mean()
for real, fake in loader:
    loss = nn.functional.softplus(D(fake)).mean() + nn.functional.softplus(-D(real)).mean()
    update(loss + 5.0 * penalty(real))
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--second", type=int, default=0)
parser.add_argument("--weight", type=float, default=10.0)
args = parser.parse_args()
class Penalty:
    def __call__(self, x):
        x = x.clone().requires_grad_()
        g = torch.autograd.grad(D(x).sum(), x, create_graph=bool(args.second))[0]
        return args.weight * (g.flatten(1).norm(dim=1) - 1).square().mean()
penalty = Penalty()
for real, fake in loader:
    update(D(fake).mean() - D(real).mean() + penalty(real))
""",
)

GOOD = (
    f"""{_HEAD}
for real, fake in loader:
    x = (0.5 * real + 0.5 * fake).requires_grad_(True)
    d = D(x)
    grad = torch.autograd.grad(d, x, grad_outputs=torch.ones_like(d), create_graph=True)[0]
    update(D(fake).mean() - D(real).mean() + 10 * ((grad.norm(2, dim=1) - 1) ** 2).mean())
""",
    f"""{_HEAD}
for real, fake in loader:
    x = real.requires_grad_(True)
    grad = torch.autograd.grad(D(x).sum(), x)[0]
    weight = torch.autograd.grad(D(fake).mean(), D[2].weight, retain_graph=True)[0].norm()
    update(D(x + 0.1 * grad.sign()).mean() + weight * D(fake).mean())
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look for terms that nothing but such gradients are behind."""
    told: set[int] = set()
    for terms in loss_terms(context):
        for term in terms:
            made = _gradient(term)
            if made is None or id(made) in told or plain(made.kwargs.get("create_graph"), False) is not False:
                continue
            if made.open_args or len(made.args) > 4 or not _alone(term.value, made):
                continue
            told.add(id(made))
            yield _finding(context, term, made)


def _gradient(term: Term) -> Obj | None:
    """The gradient that a term comes from."""
    for part in provenance(term.value, 100):
        if isinstance(part, Obj) and part.name == "torch.autograd.grad":
            return part
    return None


def _alone(value: Value, made: Obj) -> bool:
    """Whether no module is called between the gradients and the term, and nothing cuts it on purpose."""
    behind = {id(part) for part in provenance(made)}
    own = [part for part in provenance(value) if part is not made and id(part) not in behind and isinstance(part, Obj)]
    if any(part.name == "()" or operation(part) in CUTS or part.kind == "param" for part in own):
        return False
    return not any(
        part.name.startswith("torch.nn.") and id(part) in {id(p) for p in own} for part in reached([value]).values()
    )


def _finding(context: Context, term: Term, made: Obj) -> Finding:
    return context.finding(
        RULE,
        made,
        f"{source_text(context, term.value)} is a term of the loss and comes from gradients without a graph: it moves no weight",
        evidence=[
            Evidence("create_graph", False),
            Evidence("factor of the term in the loss", term.factor),
        ],
        related=[(term.value, "the term is here")],
        fix=Fix(
            title="keep the graph of the gradients",
            safe=False,
            instruction="give create_graph=True to torch.autograd.grad",
            expected="the penalty is trained",
        ),
    )
