"""A Lightning callback watches a name that nothing logs.

## What it does
Compares `monitor` of ModelCheckpoint, EarlyStopping and the learning rate schedule with the names that the module logs.

## Why
Lightning raises when the callback first asks for the metric: after the first validation, which may be hours into the run.

## Fix
Watch one of the names that are logged, or log the metric under the name that is watched.

## When to ignore
When a base class or a callback that cannot be seen logs the name.

## References
- Lightning documentation, EarlyStopping and ModelCheckpoint, "monitor"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.lightning_modules import fitted, logged
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="monitored-name-never-logged",
    code="LIT006",
    severity="error",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("lightning", "metrics"),
)

_MODULE = """
import torch
import lightning as L
from torch import nn
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)
    def training_step(self, batch, index):
        loss = self.net(batch).mean()
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss
    def validation_step(self, batch, index):
        self.log_dict({"val_loss": self.net(batch).mean(), "val_acc": 0.5}, sync_dist=True)
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
"""

BAD = (
    _MODULE + 'L.Trainer(callbacks=[ModelCheckpoint(monitor="val/loss")]).fit(Net(), loader, held_out)\n',
    _MODULE
    + """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--watch", default="valid_loss")
stop = EarlyStopping(p.parse_args().watch, patience=3)
trainer = L.Trainer(callbacks=[stop])
trainer.fit(Net(), loader, held_out)
""",
    """
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint as Keep
class Net(pl.LightningModule):
    def training_step(self, batch, index):
        loss = self.net(batch).mean()
        self.log("loss", loss)
        return loss
best = Keep("out", monitor="accuracy", mode="max")
pl.Trainer(callbacks=[best]).fit(Net(), loader)
""",
)

GOOD = (
    _MODULE.replace(
        "        return loss\n",
        '        self.trainer.callback_metrics["val/loss"] = loss.detach()\n        return loss\n',
    )
    + 'L.Trainer(callbacks=[ModelCheckpoint(monitor="val/loss")]).fit(Net(), loader, held_out)\n',
    _MODULE
    + """
callbacks = [ModelCheckpoint(monitor="val_loss"), EarlyStopping(monitor="train_loss_epoch"), LearningRateMonitor(),
             ModelCheckpoint(monitor="step", mode="max"), ModelCheckpoint(save_last=True), ModelCheckpoint(monitor="val_acc", mode="max")]
L.Trainer(callbacks=callbacks).fit(Net(), loader, held_out)
""",
    _MODULE.replace('self.log("train_loss", loss, on_step=True', "self.log(self.prefix + name(), loss, on_step=True")
    + 'L.Trainer(callbacks=[ModelCheckpoint(monitor="val/loss")]).fit(Net(), loader, held_out)\n',
    _MODULE.replace("class Net(L.LightningModule)", "from base import Base\nclass Net(Base, L.LightningModule)")
    + 'L.Trainer(callbacks=[ModelCheckpoint(monitor="val/loss")]).fit(Net(), loader, held_out)\n',
)

_CALLBACKS = {"ModelCheckpoint": (2, "monitor"), "EarlyStopping": (0, "monitor")}
_ALWAYS = ("epoch", "step")
_ADDED = ("_step", "_epoch", "/dataloader_idx_")


def check(context: Context) -> Iterator[Finding]:
    """Compare what is watched with what is logged."""
    names, modules = logged(context), fitted(context)
    if names is None or not modules or any(_unseen(module) for module in modules):
        return
    if any(_brings_metrics(event) for event in context.trace.calls("lightning.pytorch.Trainer")):
        return
    for kind, place in _CALLBACKS.items():
        for event in context.trace.calls(f"lightning.pytorch.callbacks.{kind}"):
            given = event.argument(*place)
            watched = settle(given) if given is not None else None
            if not isinstance(watched, Known) or not isinstance(watched.value, str) or event.context.shadow:
                continue
            if watched.value in _ALWAYS or any(_stands_for(watched.value, name) for name in names):
                continue
            yield _finding(context, event, kind, watched.value, names)


def _unseen(module: Obj) -> bool:
    """Whether a base of the module that is not read may log, too."""
    bases = module.cls.external_bases() if module.cls is not None else []
    return any(not base.startswith(("lightning.pytorch.", "abc.")) for base in bases)


def _brings_metrics(event: Event) -> bool:
    """Whether the trainer has callbacks of the project, which may log."""
    given = event.kwargs.get("callbacks")
    listed = settle(given) if given is not None else None
    parts = [settle(item) for item in getattr(listed, "items", [])] if listed is not None else []
    return any(isinstance(part, Obj) and part.cls is not None for part in parts)


def _stands_for(watched: str, name: str) -> bool:
    return watched == name or any(watched.startswith(name + more) for more in _ADDED)


def _finding(context: Context, event: Event, kind: str, watched: str, names: set[str]) -> Finding:
    listed = ", ".join(sorted(names)[:8])
    return context.finding(
        RULE,
        event,
        f"{kind} watches {watched!r}, which nothing logs: Lightning raises when it first asks for it",
        evidence=[Evidence("watched", watched), Evidence("logged", listed)],
        fix=Fix(
            title="watch a name that is logged",
            instruction=f"use one of {listed}, or log {watched!r} with self.log",
            expected="the callback finds its metric after each validation",
        ),
    )
