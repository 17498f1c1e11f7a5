"""ReduceLROnPlateau is handed to Lightning without the name of its metric.

## What it does
Looks at what `configure_optimizers` returns: a ReduceLROnPlateau without `monitor` beside it.

## Why
The trainer steps the schedule, and has to know which logged metric to give it: without a name it raises MisconfigurationException before the first step.

## Fix
Return `{"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}`.

## When to ignore
Never: Lightning refuses it.

## References
- Lightning documentation, LightningModule.configure_optimizers, "monitor"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.lightning_modules import fitted, optimizes_by_hand
from preflight.check.rule import Rule
from preflight.source.values import Dict, Obj, Seq, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="plateau-without-monitor",
    code="LIT007",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("lightning", "schedule"),
)

_MODULE = """
import torch
import lightning as L
class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return self.net(batch).mean()
    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters())
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=2)
        return ANSWER
L.Trainer(max_epochs=3).fit(Net(), loader, held_out)
"""

BAD = (
    _MODULE.replace("ANSWER", '{"optimizer": opt, "lr_scheduler": plateau}'),
    _MODULE.replace("ANSWER", '{"optimizer": opt, "lr_scheduler": {"scheduler": plateau, "interval": "epoch"}}'),
    _MODULE.replace("ANSWER", "[opt], [plateau]"),
)

GOOD = (
    _MODULE.replace("ANSWER", '{"optimizer": opt, "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"}}')
    + _MODULE.replace("ANSWER", '{"optimizer": opt, "lr_scheduler": plateau, "monitor": "val_loss"}'),
    _MODULE.replace("ANSWER", '[opt], [{"scheduler": plateau, "monitor": "val_loss"}]')
    + _MODULE.replace("ANSWER", '{"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.StepLR(opt, 3)}'),
    _MODULE.replace("ANSWER", "[opt], [plateau]").replace(
        "super().__init__()", "super().__init__()\n        self.automatic_optimization = False"
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Look at what modules return for their trainer."""
    by_hand = {id(m.cls) for m in fitted(context) if optimizes_by_hand(m) is not False}
    own = {m.cls.qualname for m in fitted(context) if m.cls is not None and id(m.cls) not in by_hand}
    for name in sorted(own):
        for event in context.trace.calls(f"{name}.configure_optimizers"):
            plateau = _unnamed(settle(event.result)) if event.result is not None and not event.context.shadow else None
            if plateau is None:
                continue
            yield context.finding(
                RULE,
                context.reading.event_of(plateau) or plateau,
                "ReduceLROnPlateau is returned without 'monitor': Lightning raises MisconfigurationException before the first step",
                evidence=[Evidence("monitor", None)],
                fix=Fix(
                    title="name the metric",
                    instruction='return {"optimizer": ..., "lr_scheduler": {"scheduler": ..., "monitor": "val_loss"}}',
                    expected="the trainer gives the schedule the metric after each validation",
                ),
            )
            break


def _unnamed(result: Value) -> Obj | None:
    """The plateau schedule of a result that comes without a name."""
    if isinstance(result, Dict):
        if result.open or "monitor" in result.entries or "lr_scheduler" not in result.entries:
            return None
        return _of(settle(result.entries["lr_scheduler"]))
    if isinstance(result, Seq) and len(result.items) == 2:
        second = settle(result.items[1])
        if isinstance(second, Seq):
            return next((found for item in second.items if (found := _of(settle(item))) is not None), None)
    return None


def _of(value: Value) -> Obj | None:
    if isinstance(value, Dict):
        held = value.entries.get("scheduler")
        return _of(settle(held)) if held is not None and not value.open and "monitor" not in value.entries else None
    plateau = isinstance(value, Obj) and value.cls is None and value.name.endswith("lr_scheduler.ReduceLROnPlateau")
    return value if plateau and isinstance(value, Obj) else None
