"""Batches whose samples are padded to the longest of the batch."""

from __future__ import annotations

import msgspec

from preflight.check.context import Context
from preflight.source.facts.data import training_loader
from preflight.source.trace import Event, provenance
from preflight.source.values import Bound, Func, Obj, Value, options_of, plain, settle

_PADS = ("torch.nn.utils.rnn.pad_sequence", "torch.nn.utils.rnn.pack_sequence")


class Varying(msgspec.Struct, frozen=True):
    """Where samples are padded, how, and whether a cap on the length is given."""

    event: Event
    how: str
    capped: bool


def varying(context: Context) -> Varying | None:
    """The padding of the training loader's collate function, when it follows the batch."""
    loader = training_loader(context.reading)
    collate = settle(loader.kwargs["collate_fn"]) if loader is not None and "collate_fn" in loader.kwargs else None
    func = _function(collate)
    for event in context.trace.calls(*_PADS, "()", ".pad", "?"):
        if event.name not in _PADS and "padding" not in event.kwargs:
            continue
        if not _feeds(context, func, event):
            continue
        if event.name in _PADS:
            return Varying(event, f"{event.name.rpartition('.')[2]} pads to the longest sample of the batch", False)
        padding = plain(event.kwargs.get("padding"))
        if padding is True or padding == "longest":
            capped = plain(event.kwargs.get("truncation")) is True
            return Varying(event, f"padding={padding!r} pads to the longest sample of the batch", capped)
    return None


def _feeds(context: Context, func: Func | None, event: Event) -> bool:
    """Whether a call prepares training batches: in the collate function, or in the loop, for what the loss is computed of."""
    if func is not None and (
        _inside(func, event) or any(f.kind in ("call", "root") and f.value is func for f in event.context.frames())
    ):
        return True
    loop = context.reading.loop_of(event)
    if loop is None or event.result is None:
        return False
    made = {id(option) for option in options_of(event.result)}
    return any(id(part) in made for loss in loop.losses() for part in provenance(loss))


def _function(collate: Value | None) -> Func | None:
    if isinstance(collate, Func):
        return collate
    if isinstance(collate, Bound):
        return collate.func
    if isinstance(collate, Obj) and collate.cls is not None:
        member = collate.cls.lookup("__call__")
        return member if isinstance(member, Func) else None
    return None


def _inside(func: Func, event: Event) -> bool:
    """Whether a call is written inside a function, by its lines."""
    node, end = func.node, getattr(func.node, "end_lineno", None) or func.node.lineno
    return event.script is func.module.script and node.lineno <= getattr(event.node, "lineno", 0) <= end
