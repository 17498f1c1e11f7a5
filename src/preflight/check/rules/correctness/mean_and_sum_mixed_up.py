"""A mean is taken for a sum, or a sum for a mean, in the loss.

## What it does
Reports a loss that is already a mean over the batch and is divided by the batch size once more.
It also reports the loss of a variational autoencoder that adds a mean over all elements to a sum over all of them.

## Why
Divided twice, gradients are too small by the batch size: with 64 examples, a rate of 1e-3 acts like 1.6e-5.
In the second case the two terms differ by the number of elements of a batch: for 128 images of 784 pixels, the reconstruction weighs 100,352 times less than it should, and the posterior collapses.

## Fix
Divide only sums (`reduction="sum"`), and reduce all terms of a loss in the same way.

## When to ignore
When the factor is wanted, as a weight between terms.

## References
- PyTorch documentation of `torch.nn.CrossEntropyLoss`: reduction="mean" is the default
- Kingma and Welling, "Auto-Encoding Variational Bayes" (2014), appendix B
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import LossCall, loss_calls
from preflight.check.queries.tensors import VIEWS, graph, operand, operation, option, origin, second, source_text
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Known, Obj, Unknown, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="mean-and-sum-mixed-up", code="LOS002", severity="warning", confidence="likely", layer="D", tags=("loss",)
)

BAD = (
    """
import torch.nn as nn
model = nn.Linear(8, 3)
criterion = nn.CrossEntropyLoss()
for x, y in loader:
    loss = criterion(model(x), y) / x.size(0)
    loss.backward()
""",
    """
import torch.nn.functional as F
from torch.nn import Linear
class Task:
    def __init__(self):
        self.net = Linear(8, 1)
    def loss(self, batch):
        x, y = batch
        return F.mse_loss(self.net(x), y).div(len(y))
task = Task()
for batch in loader:
    task.loss(batch).backward()
""",
    """
import argparse, torch
import torch.nn.functional as F
p = argparse.ArgumentParser()
p.add_argument("--reduction", default="mean")
args = p.parse_args()
class VAE(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = torch.nn.Linear(784, 40), torch.nn.Linear(20, 784)
    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return torch.sigmoid(self.dec(z)), mu, logvar
vae = VAE()
def objective(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction=args.reduction)
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld
for x, _ in loader:
    recon, mu, logvar = vae(x)
    objective(recon, x, mu, logvar).backward()
""",
)

GOOD = (
    """
import torch, torch.nn as nn
import torch.nn.functional as F
net = nn.Linear(8, 3)
parts = [nn.Linear(8, 3), nn.Linear(8, 3)]
for i, (x, y) in enumerate(loader):
    loss = F.cross_entropy(net(x), y, reduction="sum") / len(x)
    loss = loss + F.cross_entropy(net(x), y) / 4
    loss = loss + sum(F.cross_entropy(p(x), y) for p in parts) / len(parts)
    tokens = F.cross_entropy(net(x), y, reduction="none").sum() / y.size(0)
    (loss + tokens + F.cross_entropy(net(x), y) * x.size(0) / total).backward()
""",
    """
import torch
import torch.nn.functional as F
net = torch.nn.Linear(784, 784)
for x, _ in loader:
    mu, logvar = net(x).chunk(2, dim=1)
    bce = F.binary_cross_entropy(torch.sigmoid(net(x)), x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    mean = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
    one = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1)
    loss = F.mse_loss(net(x), x) + one.mean() + 1e-5 * kld
    (bce + kld + loss + F.mse_loss(net(x), x) + kld / x.numel() + mean).backward()
""",
)

_MEANS = ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
          "smooth_l1_loss", "huber_loss")  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Look at each quotient and each sum that a training loss passes."""
    calls = {id(settle(c.event.result)): c for c in loss_calls(context, *_MEANS) if c.event.result is not None}
    if not calls:
        return
    for value in [*graph(context).made("/", "div", "div_")]:
        call = calls.get(id(_plain_value(operand(value))))
        by = second(value)
        measured = _batch_of(by)
        if call is None or measured is None or call.reduction != "mean" or not graph(context).trains(value):
            continue
        if not any(measured is settle(p) for p in provenance(call.event.result, 400)):
            continue
        yield _divided_twice(context, value, call, by)
    for value in [*graph(context).made("+", "add", "add_")]:
        found = _unequal(value, calls)
        if found is not None and graph(context).trains(value):
            yield _mixed(context, value, *found)


def _plain_value(value: Value | None) -> Value | None:
    return settle(value) if value is not None else None


def _batch_of(by: Value | None) -> Value | None:
    """The tensor whose number of examples this is: ``x.size(0)``, ``x.shape[0]``, ``len(x)``."""
    base = settle(by) if by is not None else None
    if isinstance(base, Unknown) and base.name in ("len", "size") and len(base.parents) == 1:
        return settle(base.parents[0])
    if not isinstance(base, Obj):
        return None
    if base.name == ".size" and base.receiver is not None and len(base.args) == 1 and plain(base.args[0]) == 0:
        return settle(base.receiver)
    if base.kind == "item" and base.args and plain(base.args[0]) == 0 and base.receiver is not None:
        shape = settle(base.receiver)
        whole = isinstance(shape, Obj) and (
            (shape.kind == "attr" and shape.name == "shape") or (shape.name == ".size" and not shape.args)
        )
        return settle(shape.receiver) if whole and isinstance(shape, Obj) and shape.receiver is not None else None
    return None


def _divided_twice(context: Context, value: Obj, call: LossCall, by: Value | None) -> Finding:
    return context.finding(
        RULE,
        value,
        f"{call.name} is already the mean over the batch, and is divided by the batch size once more: "
        "gradients are too small by that factor",
        evidence=[
            Evidence("reduction", "mean"),
            Evidence("divided by", source_text(context, by) if by is not None else "the batch size"),
        ],
        related=[(call.event, "the mean is taken here")],
        fix=Fix(
            title="divide once",
            instruction='remove the division, or make the loss with reduction="sum"',
            expected="the learning rate means what it says, for every batch size",
        ),
    )


def _unequal(value: Obj, calls: dict[int, LossCall]) -> tuple[LossCall, Obj] | None:
    """A mean over all elements and a sum of divergences over all elements, added without a weight."""
    parts = [value.receiver, *value.args] if value.kind == "call" and value.name.startswith(".") else value.args
    settled = [settle(p) for p in parts if p is not None]
    if len(settled) != 2:
        return None
    for mean, other in (settled, settled[::-1]):
        call = calls.get(id(mean))
        if call is None or call.reduction != "mean" or call.kind not in ("mse_loss", "binary_cross_entropy", "l1_loss",
                                                                         "binary_cross_entropy_with_logits"):  # fmt: skip
            continue
        total = _divergence(other)
        if total is not None:
            return call, total
    return None


def _divergence(value: Value) -> Obj | None:
    """The full sum in ``-0.5 * sum(1 + logvar - mu ** 2 - exp(logvar))``."""
    if not (isinstance(value, Obj) and value.kind == "op" and value.name == "*" and len(value.args) == 2):
        return None
    factors = [settle(a) for a in value.args]
    constants = [f.value for f in factors if isinstance(f, Known)]
    total = next((origin(f, VIEWS) for f in factors if isinstance(f, Obj)), None)
    if constants not in ([-0.5], [0.5]) or total is None or operation(total) != "sum":
        return None
    if option(total, 0, "dim") is not None or total.kwargs:
        return None
    inside = {operation(p) for p in provenance(operand(total), 40) if isinstance(p, Obj)}
    return total if "exp" in inside and inside & {"pow", "square", "**", "pow_", "*"} else None


def _mixed(context: Context, value: Obj, call: LossCall, total: Obj) -> Finding:
    return context.finding(
        RULE,
        value,
        f"{call.name} is a mean over all elements, the divergence added to it a sum over all of them: "
        "it outweighs the reconstruction by the number of elements in a batch",
        evidence=[
            Evidence("reduction of the reconstruction", "mean"),
            Evidence("reduction of the divergence", "sum", arithmetic="128 images x 784 pixels = 100,352"),
        ],
        related=[(call.event, "the mean is taken here"), (total, "the sum is taken here")],
        fix=Fix(
            title="reduce both terms in the same way",
            instruction='use reduction="sum" for the reconstruction, and divide the whole loss by the batch size',
            expected="the terms have the weights of the evidence lower bound",
        ),
    )
