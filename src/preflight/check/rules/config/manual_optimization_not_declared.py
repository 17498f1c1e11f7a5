"""Manual optimization without switching the automatic one off.

## What it does
Looks for `self.manual_backward(...)` in a LightningModule that never sets `self.automatic_optimization = False`; and for a Trainer with `accumulate_grad_batches` or `gradient_clip_val` around a module that optimizes by hand.

## Why
Lightning raises MisconfigurationException in both cases: the first training step, or the first check of the configuration, ends the run.

## Fix
Set `self.automatic_optimization = False` in `__init__`; accumulate and clip inside `training_step`.

## When to ignore
Never: Lightning refuses these combinations.

## References
- Lightning documentation, "Manual Optimization"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.lightning_modules import module_of_lightning, optimizes_by_hand
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="manual-optimization-not-declared",
    code="LIT001",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("lightning", "optimizer"),
)

_MODULE = """
import torch
import lightning.pytorch as pl
from torch import nn
class Gan(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)
    def training_step(self, batch, index):
        opt = self.optimizers()
        loss = self.net(batch).mean()
        opt.zero_grad()
        self.manual_backward(loss)
        opt.step()
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
"""

BAD = (
    _MODULE + "pl.Trainer(max_epochs=1).fit(Gan(), loader)\n",
    """
import torch
from pytorch_lightning import LightningModule as Base, Trainer
class Net(Base):
    def training_step(self, batch, index):
        self.update(batch)
    def update(self, batch):
        self.manual_backward(self.net(batch).mean())
Trainer().fit(Net(), loader)
""",
    _MODULE.replace("super().__init__()", "super().__init__()\n        self.automatic_optimization = False")
    + """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--accumulate", type=int, default=4)
args = p.parse_args()
trainer = pl.Trainer(accumulate_grad_batches=args.accumulate)
trainer.fit(Gan(), loader)
""",
)

GOOD = (
    _MODULE.replace("super().__init__()", "super().__init__()\n        self.automatic_optimization = False")
    + "pl.Trainer(accumulate_grad_batches=1).fit(Gan(), loader)\n",
    """
import lightning.pytorch as pl
class Net(pl.LightningModule):
    automatic_optimization = False
    def training_step(self, batch, index):
        self.manual_backward(self.net(batch).mean())
class Other(pl.LightningModule):
    @property
    def automatic_optimization(self):
        return False
    def training_step(self, batch, index):
        self.manual_backward(self.net(batch).mean())
class Plain(pl.LightningModule):
    def training_step(self, batch, index):
        return self.net(batch).mean()
pl.Trainer(accumulate_grad_batches=4).fit(Plain(), loader)
""",
)

_FIT = (".fit",)


def check(context: Context) -> Iterator[Finding]:
    """Find manual steps in automatic modules, and the reverse."""
    for event in context.trace.calls(".manual_backward"):
        module = module_of_lightning(event.receiver)
        if module is None or optimizes_by_hand(module) is not False:
            continue
        yield context.finding(
            RULE,
            event,
            f"manual_backward() is called, but {_name(module)} does not set automatic_optimization = False: Lightning raises in the first step",
            evidence=[Evidence("automatic_optimization", True)],
            fix=Fix(
                title="switch automatic optimization off",
                instruction="set self.automatic_optimization = False in __init__",
                expected="the module optimizes by hand, as it is written",
            ),
        )
        break
    for event in context.trace.calls(*_FIT):
        yield from _trainer(context, event)


def _trainer(context: Context, event: Event) -> Iterator[Finding]:
    trainer, module = (
        settle(event.receiver) if event.receiver is not None else None,
        module_of_lightning(event.argument(0, "model")),
    )
    if (
        not isinstance(trainer, Obj)
        or trainer.name != "lightning.pytorch.Trainer"
        or module is None
        or optimizes_by_hand(module) is not True
    ):
        return
    for name in ("accumulate_grad_batches", "gradient_clip_val"):
        value = context.value(trainer.kwargs.get(name))
        if isinstance(value, (int, float)) and value > (1 if name.startswith("acc") else 0):
            yield context.finding(
                RULE,
                trainer,
                f"{name}={value} is given to the Trainer, but {_name(module)} optimizes by hand: Lightning raises before training",
                evidence=[Evidence(name, value), Evidence("automatic_optimization", False)],
                fix=Fix(
                    title=f"drop {name}",
                    instruction="accumulate and clip inside training_step (self.clip_gradients)",
                    expected="training starts",
                ),
            )


def _name(module: Obj) -> str:
    return module.cls.qualname if module.cls is not None else "the module"
