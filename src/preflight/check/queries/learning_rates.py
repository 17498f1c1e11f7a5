"""Learning rates: the highest that an optimizer uses, and what is usual for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.schedules import kind_of, optimizer_of
from preflight.source.trace import provenance
from preflight.source.values import Dict, Known, Obj, Seq, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context


class Usual(NamedTuple):
    """What is usual for an optimizer.

    Attributes:
        text: The usual range.
        high: From here on a rate is a mistake for a network of several layers.
        odd: From here on it is seldom right.
        source: Where the range is from.
    """

    text: str
    high: float
    odd: float
    source: str


_ADAM = Usual(
    "1e-5 to 1e-2", 0.1, 0.03, "Kingma and Ba 2015 use 1e-3; fine-tuning uses 1e-5 to 5e-5 (Devlin et al. 2019)"
)
# Where several rates are usual the limits are generous: SGD with 30 is right for a linear probe (He et al. 2020).
USUAL = {
    "Adam": _ADAM,
    "AdamW": _ADAM,
    "NAdam": _ADAM,
    "RAdam": _ADAM,
    "Adamax": _ADAM,
    "FusedAdam": _ADAM,
    "AdamW8bit": _ADAM,
    "Adam8bit": _ADAM,
    "PagedAdamW": _ADAM,
    "PagedAdamW8bit": _ADAM,
    "DeepSpeedCPUAdam": _ADAM,
    "SGD": Usual("1e-3 to 1", 100.0, 5.0, "Goyal et al. 2017 use 0.1 for 256 images, 3.2 for 8192"),
    "RMSprop": Usual("1e-4 to 1e-2", 0.5, 0.1, "PyTorch's default is 1e-2"),
    "Adagrad": Usual("1e-3 to 1", 10.0, 3.0, "PyTorch's default is 1e-2"),
    "Adadelta": Usual("0.1 to 1", 100.0, 30.0, "PyTorch's default is 1.0"),
    "Lion": Usual("1e-5 to 1e-3", 0.03, 0.01, "Chen et al. 2023: 3 to 10 times smaller than for AdamW"),
    "LBFGS": Usual("0.1 to 1", 100.0, 30.0, "PyTorch's default is 1"),
    "Muon": Usual("1e-3 to 0.1", 3.0, 1.0, "Jordan et al. 2024 use 0.02"),
    "Adafactor": Usual("1e-4 to 1e-2", 1.0, 0.3, "Raffel et al. 2020 use 1e-3 to 1e-2"),
}
_PEAKS = {"OneCycleLR": "max_lr", "CyclicLR": "max_lr"}
# Schedules that never exceed the rate that the optimizer is given.
_BELOW = (
    "StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "LinearLR",
    "ConstantLR", "PolynomialLR", "ReduceLROnPlateau", "get_scheduler",
)  # fmt: skip


class Rate(NamedTuple):
    """A learning rate and where it comes from.

    Attributes:
        value: The number.
        given: The value in the script.
        how: ``lr``, ``max_lr of OneCycleLR``, ``lr of group 1``.
    """

    value: float
    given: Value
    how: str


def short(optimizer: Obj) -> str:
    """The name of an optimizer's class."""
    return optimizer.name.rpartition(".")[2] if optimizer.cls is None else optimizer.cls.qualname


def rates(context: Context, optimizer: Obj) -> Iterator[Rate]:
    """The highest rates that an optimizer uses; none where code sets them in a way that is not followed."""
    if sets_rates(context, optimizer):
        return
    for scheduler in context.reading.made("scheduler"):
        if optimizer_of(context, scheduler) is not optimizer and kind_of(scheduler) is not None:
            continue
        kind = kind_of(scheduler) or ""
        if kind in _PEAKS:
            given = scheduler.argument(1 if kind == "OneCycleLR" else 2, _PEAKS[kind])
            yield from _numbers(given, f"{_PEAKS[kind]} of {kind}")
            return
        if kind not in _BELOW and not kind.startswith("get_"):
            return  # a schedule whose factor may be anything
    held = optimizer.argument(0, "params")
    groups = settle(held) if held is not None else None
    default = optimizer.argument(1, "lr")
    found = False
    if isinstance(groups, Seq):
        for number, item in enumerate(groups.items):
            group = settle(item)
            if isinstance(group, Dict) and "lr" in group.entries:
                found = True
                yield from _numbers(group.entries["lr"], f"lr of group {number}")
    if default is not None and not (found and all(_has_rate(i) for i in groups.items)):  # type: ignore[union-attr]
        yield from _numbers(default, "lr")


def _has_rate(item: Value) -> bool:
    group = settle(item)
    return isinstance(group, Dict) and "lr" in group.entries


def _numbers(value: Value | None, how: str) -> Iterator[Rate]:
    base = settle(value) if value is not None else None
    for item in base.items if isinstance(base, Seq) else [base]:
        one = settle(item) if item is not None else None
        if isinstance(one, Known) and isinstance(one.value, (int, float)) and not isinstance(one.value, bool):
            yield Rate(float(one.value), one, how)


def sets_rates(context: Context, optimizer: Obj) -> bool:
    """Whether the script itself writes learning rates into the optimizer's groups."""
    for store in context.trace.stores:
        if store.name == "['lr']":
            sources = [
                p for p in provenance(store.target, 12) if isinstance(p, Obj) and context.roles.of(p) == "optimizer"
            ]
            if not sources or optimizer in sources:
                return True
    return False


def schedule_of(context: Context, optimizer: Obj) -> Obj | None:
    """A schedule that changes the rate of an optimizer."""
    for scheduler in context.reading.made("scheduler"):
        if optimizer_of(context, scheduler) in (optimizer, None):
            return scheduler
    return None


def optimizers(context: Context) -> list[Obj]:
    """Optimizers of the defaults' path that are made by a library."""
    return [
        o
        for o in context.reading.made("optimizer")
        if o.cls is None and not (o.context is not None and o.context.shadow)
    ]


def is_adapted(context: Context) -> bool:
    """Whether adapters or prompts are trained instead of the network; they want higher rates."""
    return bool({"peft", "loralib", "unsloth"} & context.reading.imports)
