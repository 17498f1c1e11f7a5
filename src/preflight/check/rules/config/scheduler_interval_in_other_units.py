"""The interval of a Lightning scheduler does not fit its length.

## What it does
Compares the length of the scheduler that `configure_optimizers` returns (T_max, total_steps, num_training_steps) with the interval at which the trainer steps it: once per epoch, unless `"interval": "step"` is returned with it.

## Why
A warm-up and decay over 10,000 steps that advances once per epoch has made 5 of them after 5 epochs: the rate is still near 0.
A cosine of 30 epochs that advances with every batch is over after 30 batches, and then rises and falls for the whole run.
Nothing fails; the model is only worse.

## Fix
Return `{"scheduler": scheduler, "interval": "step"}` for a length in batches, `"epoch"` for one in epochs.

## When to ignore
When the rate is meant to cycle many times within an epoch.

## References
- Lightning documentation, `LightningModule.configure_optimizers`: `lr_scheduler_config`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.lightning_schedules import Configured, configured
from preflight.check.queries.schedules import kind_of, length
from preflight.check.rule import Rule
from preflight.source.trace import provenance
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scheduler-interval-in-other-units",
    code="LIT004",
    severity="error",
    confidence="likely",
    needs=("scheduler",),
    tags=("schedule", "lightning"),
)

BAD = (
    """
import torch
import pytorch_lightning as pl
from torch import nn
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x), y)
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
pl.Trainer(max_epochs=30).fit(Net(), loader)
""",
    """
import torch
import pytorch_lightning as pl
from torch import nn
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x), y)
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.estimated_stepping_batches)
        return [optimizer], [scheduler]
pl.Trainer(max_epochs=30).fit(Net(), loader)
""",
    """
import argparse
import torch
from lightning import LightningModule, Trainer
from transformers import get_linear_schedule_with_warmup as warmed
class Net(LightningModule):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.layer = torch.nn.Linear(10, 2)
    def training_step(self, batch, index):
        return self.layer(batch[0]).mean()
    def schedule(self, optimizer):
        return {"scheduler": warmed(optimizer, 100, self.args.steps)}
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-4)
        return dict(optimizer=optimizer, lr_scheduler=self.schedule(optimizer))
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10_000)
Trainer(max_epochs=5).fit(Net(parser.parse_args()), loader)
""",
)

GOOD = (
    """
import torch
import pytorch_lightning as pl
from torch import nn
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x), y)
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30)
        return [optimizer], [{"scheduler": scheduler, "interval": "epoch"}]
pl.Trainer(max_epochs=30).fit(Net(), loader)
""",
    """
import torch
import pytorch_lightning as pl
from torch import nn
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.cross_entropy(self.layer(x), y)
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.estimated_stepping_batches)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
pl.Trainer(max_epochs=30).fit(Net(), loader)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare the lengths of returned schedulers with their intervals."""
    for returned in configured(context):
        yield from _compare(context, returned)


def _compare(context: Context, returned: Configured) -> Iterator[Finding]:
    """The trainer steps, and the interval that was returned decides how often."""
    found = length(context, returned.scheduler)
    if found is None:
        return
    name, given, size = found
    kind, epochs = kind_of(returned.scheduler), returned.epochs
    if returned.interval == "step":
        wrong = epochs is not None and size.number == epochs > 1 and kind not in ("OneCycleLR", "LinearLR", "StepLR")
        told = f'{name} is {size}, the number of epochs, but its interval is "step": the schedule is over after {size} batches'
        instruction = f'return "interval": "epoch", or make {name} trainer.estimated_stepping_batches'
    else:
        batches = any(size.powers.get(key, 0) == 1 for key in size.batches) or any(
            isinstance(p, Obj) and p.kind == "attr" and p.name == "estimated_stepping_batches"
            for p in provenance(given, 30)
        )
        long = epochs is not None and size.number is not None and size.number >= 50 * epochs and kind != "StepLR"
        wrong = batches or long
        shown = "batches" if batches else f"{size} steps"
        told = f"{name} counts {shown}, but the trainer steps the scheduler per epoch: training ends before the schedule has begun"
        instruction = 'return {"scheduler": scheduler, "interval": "step"}'
    if wrong:
        yield context.finding(
            RULE,
            returned.scheduler,
            told,
            evidence=[
                Evidence(name, str(size), "calls of step()"),
                Evidence("interval of the scheduler", returned.interval, arithmetic=f"max_epochs = {epochs}"),
            ],
            fix=Fix(
                title="step the scheduler where its length is counted",
                instruction=instruction,
                expected="the schedule lasts as long as training",
            ),
            related=[(returned.event, "the trainer takes the scheduler from here")],
        )
