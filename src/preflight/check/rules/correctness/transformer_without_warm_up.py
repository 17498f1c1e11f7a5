"""A transformer is trained from scratch without warm-up.

## What it does
Looks for transformers with random weights that Adam trains at full rate from the first step.

## Why
Adam's averages are made of a few noisy gradients in the first steps, and the updates are as large as later ones.
Attention layers with the norm after them often diverge then; warm-up over 1 to 5 % of the steps avoids it.

## Fix
Raise the rate linearly from 0 over the first few hundred to few thousand steps.

## When to ignore
When the network has its norms before the layers and is small, or the optimizer is RAdam.

## References
- Xiong et al., "On Layer Normalization in the Transformer Architecture", 2020
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.learning_rates import optimizers, schedule_of, sets_rates, short
from preflight.check.queries.parameters import holding_of, parts_of
from preflight.check.rule import Rule
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="transformer-without-warm-up",
    code="SCH011",
    severity="info",
    confidence="likely",
    needs=("optimizer", "training_loop", "complete"),
    layer="C",
    tags=("schedule",),
)
_ATTENTION = (
    "torch.nn.MultiheadAttention",
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoderLayer",
    "torch.nn.Transformer",
)
_WITHOUT = ("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "ReduceLROnPlateau", "PolynomialLR")

_TRAIN = """
for step in range(1000):
    x, y = next(batches)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""

BAD = (
    f"""
import torch
from torch import nn
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4), 6)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3){_TRAIN}""",
    f"""
import argparse, torch
from torch import nn
from torch.optim import AdamW as Opt
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=5e-4)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(64, 4)
    def forward(self, x):
        return x + self.attend(x, x, x)[0]
model = nn.Sequential(*[Block() for _ in range(4)])
optimizer = Opt(model.parameters(), lr=parser.parse_args().lr)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000){_TRAIN}
    scheduler.step()
""",
    f"""
import torch
import transformers as tf
from torch import nn
def build():
    return tf.GPT2LMHeadModel(tf.GPT2Config(n_layer=4))
model = build()
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4){_TRAIN}""",
)

GOOD = (
    f"""
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4), 6)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = get_linear_schedule_with_warmup(optimizer, 100, 1000){_TRAIN}
    scheduler.step()
""",
    f"""
import torch
import transformers
from torch import nn
model = transformers.GPT2LMHeadModel.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5){_TRAIN}""",
    f"""
import torch
from torch import nn
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4), 6)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3){_TRAIN}
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * min(1, step / 100)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find transformers with random weights whose rate begins at its peak."""
    if context.trace.calls(".load_state_dict", ".load_pretrained", ".from_pretrained"):
        return
    for optimizer in optimizers(context):
        if short(optimizer) not in ("Adam", "AdamW", "NAdam", "FusedAdam") or _steered(context, optimizer):
            continue
        held = holding_of(context.reading, optimizer)
        owner = next((p.owner for p in held.parts if _transformer(p.owner)), None)
        if owner is None:
            continue
        schedule = schedule_of(context, optimizer)
        kind = schedule.name.rpartition(".")[2] if schedule is not None and schedule.cls is None else None
        if schedule is not None and kind not in _WITHOUT:
            continue
        yield context.finding(
            RULE,
            context.reading.event_of(optimizer) or optimizer,
            f"a transformer with random weights is trained with {short(optimizer)} at full rate from the first step: "
            "without warm-up it may diverge",
            evidence=[
                Evidence("schedule", kind or "none"),
                Evidence("rate in the first step", "the peak", arithmetic="lr(0) = peak"),
            ],
            fix=Fix(
                title="add a warm-up",
                instruction="put LinearLR(optimizer, start_factor=0.01, total_iters=500) before the schedule",
                expected="the first steps are small while Adam's averages settle",
            ),
            related=[(owner, "the transformer")],
        )


def _steered(context: Context, optimizer: Obj) -> bool:
    """Whether something else may set the rate: the script itself, a framework, or code that is given the optimizer."""
    if sets_rates(context, optimizer):
        return True
    for event in context.trace.events:
        if event.inlined or event.name.startswith(("torch.", "builtins.", ".")):
            continue
        for value in (*event.args, *event.kwargs.values()):
            if any(o is optimizer for o in options_of(value, limit=3)):
                return True
    return False


def _transformer(owner: Obj) -> bool:
    if owner.name.startswith("transformers.") and owner.cls is None and ".from_" not in owner.name:
        return True
    return any(inner.name in _ATTENTION for inner in parts_of(owner).values())
