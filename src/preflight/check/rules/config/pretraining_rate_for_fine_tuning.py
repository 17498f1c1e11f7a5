"""Pretrained weights are trained with a learning rate for training from scratch.

## What it does
Looks for pretrained networks whose whole set of weights is trained with a rate that is usual from scratch.

## Why
A high rate overwrites in the first hundred steps what pretraining has learned.
BERT was fine-tuned with 2e-5 to 5e-5; at 1e-3 it often does not train at all.

## Fix
Use 1e-5 to 1e-4 for transformers, 1e-3 to 1e-2 with SGD for convolutional networks, with a short warm-up.

## When to ignore
When the new layers have the high rate and the pretrained ones do not move, or pretraining is being continued.

## References
- Devlin et al., "BERT", 2019, appendix A.3; Mosbach et al., "On the Stability of Fine-tuning BERT", 2021
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.learning_rates import Rate, is_adapted, optimizers, rates, short
from preflight.check.queries.parameters import holding_of
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="pretraining-rate-for-fine-tuning",
    code="LR002",
    severity="info",
    confidence="likely",
    needs=("optimizer",),
    layer="C",
    tags=("optimizer",),
)
_ADAMS = ("Adam", "AdamW", "NAdam", "RAdam", "FusedAdam", "AdamW8bit")

BAD = (
    """
import torch
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
""",
    """
import argparse, torch
import transformers as tf
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.002)
args = parser.parse_args()
class Job:
    def __init__(self):
        self.net = tf.GPT2LMHeadModel.from_pretrained("gpt2").cuda()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=args.lr)
Job()
""",
    """
from dataclasses import dataclass
from torch.optim import SGD
from torchvision import models
@dataclass
class Config:
    lr: float = 0.5
def make(config):
    net = models.resnet50(weights="IMAGENET1K_V2")
    return SGD(net.parameters(), lr=config.lr)
make(Config())
""",
)

GOOD = (
    """
import torch
from transformers import AutoModel, AutoConfig
model = AutoModel.from_pretrained("bert-base-uncased")
a = torch.optim.AdamW(model.parameters(), lr=2e-5)
fresh = AutoModel.from_config(AutoConfig.from_pretrained("bert-base-uncased"))
b = torch.optim.AdamW(fresh.parameters(), lr=1e-3)
""",
    """
import torch
from torch import nn
from torchvision import models
net = models.resnet50(weights="IMAGENET1K_V2")
for p in net.parameters():
    p.requires_grad = False
net.fc = nn.Linear(2048, 10)
optimizer = torch.optim.SGD(net.fc.parameters(), lr=0.5)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find high rates for pretrained weights."""
    if is_adapted(context) or any(s.name == "requires_grad" for s in context.trace.stores):
        return
    if context.trace.calls(".requires_grad_"):
        return
    for optimizer in optimizers(context):
        held = holding_of(context.reading, optimizer)
        owner = next((o for p in held.parts if p.amount == "all" and (o := _pretrained(p.owner)) is not None), None)
        if owner is None or held.groups > 1:
            continue
        limit = 0.2 if short(optimizer) == "SGD" else 1e-3 if short(optimizer) in _ADAMS else None
        for rate in rates(context, optimizer):
            if limit is not None and rate.value >= limit and (rate.how == "lr" or "max_lr" in rate.how):
                yield _finding(context, optimizer, rate, owner)


def _pretrained(owner: Obj) -> Obj | None:
    inner = wrapped(owner)
    if not isinstance(inner, Obj):
        return None
    if inner.name.endswith(".from_pretrained") and inner.name.startswith("transformers."):
        return inner
    if inner.name.startswith("torchvision.models.") and inner.cls is None:
        for key in ("weights", "pretrained"):
            given = inner.kwargs.get(key)
            worth = settle(given) if given is not None else None
            if worth is not None and not (isinstance(worth, Known) and not worth.value):
                return inner
    return None


def _finding(context: Context, optimizer: Obj, rate: Rate, owner: Obj) -> Finding:
    usual = "1e-3 to 1e-2" if short(optimizer) == "SGD" else "1e-5 to 1e-4"
    return context.finding(
        RULE,
        context.reading.event_of(optimizer) or optimizer,
        f"pretrained weights are trained with {rate.how} = {rate.value:g}, for random ones (usual here: {usual})",
        evidence=[
            Evidence("learning rate", rate.value),
            Evidence("usual for fine-tuning", usual, source="published", arithmetic="Devlin et al. 2019: 2e-5 to 5e-5"),
        ],
        fix=Fix(
            title="lower the learning rate",
            instruction=f"use {usual}, or give only the new layers the high rate",
            expected="what pretraining has learned is kept",
        ),
        related=[(owner, "the pretrained weights")],
    )
