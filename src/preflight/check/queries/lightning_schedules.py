"""Schedulers that a Lightning module hands to its trainer: the trainer steps them, per epoch unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.schedules import kind_of
from preflight.source.trace import Event
from preflight.source.values import Dict, Known, Obj, Seq, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context


class Configured(NamedTuple):
    """A scheduler as ``configure_optimizers`` returns it.

    Attributes:
        scheduler: The scheduler.
        interval: ``epoch`` or ``step``.
        event: The call of ``configure_optimizers``.
        epochs: ``max_epochs`` of the trainer, where it is known and no ``max_steps`` ends the run before.
    """

    scheduler: Obj
    interval: str
    event: Event
    epochs: int | None


def configured(context: Context) -> Iterator[Configured]:
    """The schedulers that modules of the defaults' path return."""
    if not context.reading.made("lightning_trainer"):
        return
    epochs = _epochs(context)
    for name, events in context.trace.by_name.items():
        if not name.endswith(".configure_optimizers"):
            continue
        for event in events:
            if event.result is None or event.context.shadow:
                continue
            for value in _returned(settle(event.result)):
                found = _entry(value)
                if found is not None and kind_of(found[0]) is not None:
                    yield Configured(found[0], found[1], event, epochs)


def _returned(result: Value) -> Iterator[Value]:
    """What a result holds as schedulers: ``{"lr_scheduler": ...}``, or the second list of a pair."""
    if isinstance(result, Dict):
        given = result.entries.get("lr_scheduler")
        if given is not None:
            yield settle(given)
    elif isinstance(result, Seq) and len(result.items) == 2:
        second = settle(result.items[1])
        if isinstance(second, Seq):
            yield from map(settle, second.items)
        first = settle(result.items[0])
        if isinstance(first, Dict):  # one dictionary for each optimizer
            for item in result.items:
                yield from _returned(settle(item))


def _entry(value: Value) -> tuple[Obj, str] | None:
    """The scheduler and its interval; None where one of them is not known, or it does not step at each interval."""
    if isinstance(value, Obj):
        return value, "epoch"
    if not isinstance(value, Dict) or value.open:
        return None
    made = settle(value.entries["scheduler"]) if "scheduler" in value.entries else None
    interval = plain(value.entries["interval"]) if "interval" in value.entries else "epoch"
    often = plain(value.entries["frequency"]) if "frequency" in value.entries else 1
    if not isinstance(made, Obj) or interval not in ("epoch", "step") or often != 1:
        return None
    return made, interval


def _epochs(context: Context) -> int | None:
    trainers = [t for t in context.reading.made("lightning_trainer") if t.context is None or not t.context.shadow]
    if len(trainers) != 1 or trainers[0].open_args or trainers[0].cls is not None:
        return None
    steps = trainers[0].kwargs.get("max_steps")
    given = trainers[0].kwargs.get("max_epochs")
    if steps is not None and not (isinstance(settle(steps), Known) and plain(steps) in (-1, None)):
        return None
    found = plain(given)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None
