"""Averages of weights that a script updates by hand: ``t.mul_(d).add_(p, alpha=1 - d)`` and its other spellings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.tensors import operation
from preflight.check.queries.terms import Term, number, terms
from preflight.source.trace import Event, Store
from preflight.source.values import Obj, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context


class Average(NamedTuple):
    """One update of averaged weights from others.

    Attributes:
        place: Where it is written.
        average: The module that holds the average.
        source: The module that is averaged.
        keep: The share of the average that stays.
        take: The share that is taken from the source.
    """

    place: Event | Store
    average: Obj
    source: Obj
    keep: float
    take: float


def averages(context: Context) -> Iterator[Average]:
    """All updates of one tensor from two, whose shares are known and add up to one."""
    for place, kept, parts in _updates(context):
        if len({id(_tensor(part.value)) for part in parts}) != 2:
            continue  # a cast, or a copy of what was kept before
        average = owner(kept)
        shares: dict[int, float] = {}
        owners: dict[int, Obj] = {}
        for part in parts:
            held = owner(part.value)
            if held is None:
                break
            owners[id(held)] = held
            shares[id(held)] = shares.get(id(held), 0.0) + part.factor
        else:
            if average is None or abs(sum(shares.values()) - 1.0) > 1e-6:
                continue
            others = [held for held in owners.values() if held is not average]
            if len(others) <= 1 and id(average) in shares:
                keep = shares[id(average)] if others else 0.0
                yield Average(place, average, others[0] if others else average, keep, 1.0 - keep)


def _updates(context: Context) -> Iterator[tuple[Event | Store, Value, list[Term]]]:
    """Each update: where, the tensor that is written, and the terms of what is written."""
    for event in context.trace.calls(".copy_", ".lerp_", ".add_"):
        if event.receiver is None:
            continue
        if event.name == ".copy_" and event.args:
            yield event, event.receiver, terms(event.args[0])
        elif event.name == ".lerp_" and len(event.args) == 2 and (weight := number(event.args[1])) is not None:
            yield event, event.receiver, [Term(event.receiver, 1 - weight, ()), Term(event.args[0], weight, ())]
        elif event.name == ".add_" and event.args:
            yield from _scaled_and_added(context, event)
    for store in context.trace.stores:
        if store.name == "data":
            yield store, store.target, terms(store.value)


def _scaled_and_added(context: Context, event: Event) -> Iterator[tuple[Event, Value, list[Term]]]:
    """``t.mul_(d).add_(x)``, in one expression or in two statements after each other."""
    scaled = settle(event.receiver) if event.receiver is not None else None
    keep: float | None = None
    if isinstance(scaled, Obj) and scaled.name == ".mul_" and scaled.args:
        keep, scaled = number(scaled.args[0]), scaled.receiver
    else:
        before = [
            e
            for e in context.trace.calls(".mul_")
            if e.receiver is not None
            and _tensor(e.receiver) is _tensor(event.receiver)
            and 0 < event.number - e.number < 12
        ]
        keep = number(before[-1].args[0]) if before and before[-1].args else None
    alpha = event.kwargs.get("alpha")
    times = 1.0 if alpha is None else number(alpha)
    if keep is None or times is None or scaled is None:
        return
    added = [Term(t.value, t.factor * times, t.scale) for t in terms(event.args[0])]
    yield event, scaled, [Term(scaled, keep, ()), *added]


def _tensor(value: Value | None) -> Value | None:
    """The tensor under ``.data`` and ``.detach()``."""
    while value is not None:
        value = settle(value)
        if isinstance(value, Obj) and operation(value) in ("data", "detach"):
            value = value.receiver
            continue
        return value
    return None


def owner(value: Value | None) -> Obj | None:
    """The module whose parameters a loop goes through, for one of them; None for other values.

    Of a copy of its parameters, which no module holds, it is the copy that a loop goes through.
    """
    found = _tensor(value)
    if isinstance(found, Obj) and found.kind == "copy":
        return found if owner(found.receiver) is not None else None
    for _ in range(4):
        if isinstance(found, Obj) and found.kind == "item" and found.receiver is not None:
            found = settle(found.receiver)
            continue
        break
    if not isinstance(found, Obj) or found.name not in (".parameters", ".named_parameters", ".buffers") or found.args:
        return None
    held = settle(found.receiver) if found.receiver is not None else None
    return held if isinstance(held, Obj) else None
