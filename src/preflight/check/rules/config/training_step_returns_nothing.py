"""A Lightning module's training step returns no loss.

## What it does
Looks for a module that is given to a Lightning trainer and whose `training_step` has no `return` with a value, while the trainer optimizes for it.

## Why
What `training_step` returns is the loss that the trainer differentiates.
Where it returns nothing, Lightning skips the step: the bar moves, the loss is logged, and no weight changes.

## Fix
End `training_step` with `return loss`.

## When to ignore
When every step is skipped on purpose.

## References
- Lightning documentation, LightningModule, "training_step": None skips to the next batch
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.lightning_modules import fitted, optimizes_by_hand
from preflight.check.rule import Rule
from preflight.source.values import Func
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="training-step-returns-nothing",
    code="LIT005",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("lightning", "loss"),
)

_MODULE = """
import torch
import lightning as L
from torch import nn
class Net(L.LightningModule):
    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Linear(width, 1)
    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss)
        RETURN
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
"""

BAD = (
    _MODULE.replace("RETURN", "pass") + "L.Trainer(max_epochs=1).fit(Net(), loader)\n",
    _MODULE.replace("RETURN", "return")
    + """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--width", type=int, default=8)
trainer = L.Trainer(accelerator="gpu")
trainer.fit(model=Net(p.parse_args().width), train_dataloaders=loader)
""",
    """
import pytorch_lightning as pl
import torch
class Base(pl.LightningModule):
    def training_step(self, batch, index):
        self.losses = self.compute(batch)
    def compute(self, batch):
        return self.net(batch).mean()
class Model(Base):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
pl.Trainer().fit(Model(), loader)
""",
)

GOOD = (
    _MODULE.replace("RETURN", "return loss") + "L.Trainer(max_epochs=1).fit(Net(), loader)\n",
    _MODULE.replace("RETURN", "self.manual_backward(loss)").replace(
        "super().__init__()", "super().__init__()\n        self.automatic_optimization = False"
    )
    + "L.Trainer(max_epochs=1).fit(Net(), loader)\n",
    """
import lightning as L
class Base(L.LightningModule):
    def training_step(self, batch, index):
        raise NotImplementedError
class Other(L.LightningModule):
    def training_step(self, batch, index):
        pass
class Model(Base):
    def training_step(self, batch, index):
        return {"loss": self.net(batch).mean()}
L.Trainer().fit(Model(), loader)
L.Trainer().fit(Base(), loader)
""",
    """
import lightning as L
class Bank(L.LightningModule):
    def training_step(self, batch, index):
        self.rows.append(self.net(batch).detach())
    def configure_optimizers(self):
        return None
L.Trainer(max_epochs=1).fit(Bank(), loader)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at the training steps of modules that are fitted."""
    for module in fitted(context):
        step = module.cls.lookup("training_step") if module.cls is not None else None
        if not isinstance(step, Func) or isinstance(step.node, ast.Lambda) or step.decorators:
            continue
        if optimizes_by_hand(module) is not False or _may_answer(step.node):
            continue
        made = module.cls.lookup("configure_optimizers") if module.cls is not None else None
        if isinstance(made, Func) and not isinstance(made.node, ast.Lambda) and not _may_answer(made.node):
            continue  # without an optimizer, no weight is to change: a memory of features, say
        yield context.finding(
            RULE,
            (step.module.script, step.node),
            f"{step.qualname}() returns no loss: Lightning skips every step, and no weight changes",
            evidence=[Evidence("returns with a value", 0)],
            related=[(module, "the module that is trained")],
            fix=Fix(
                title="return the loss",
                instruction="end training_step with `return loss`",
                expected="the trainer computes gradients of the loss and steps the optimizer",
            ),
        )


def _may_answer(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function returns something, yields, or is only there to be overridden."""
    for part in ast.walk(node):
        if isinstance(part, (ast.Yield, ast.YieldFrom, ast.Raise)):
            return True
        if isinstance(part, ast.Return) and not (part.value is None or getattr(part.value, "value", part) is None):
            return True
    return False
