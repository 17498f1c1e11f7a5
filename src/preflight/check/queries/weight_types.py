"""The number format of the weights that an optimizer changes: casts of the network, and how it was loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.check.queries.parameters import holding_of, parts_of
from preflight.check.queries.precision import dtype_of
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Event
from preflight.source.values import Known, Obj, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_BACK = (".float", ".double", ".bfloat16")
_HALVES = ("float16", "bfloat16")


def last_cast(context: Context, optimizer: Obj, step: Event) -> tuple[str, Event] | None:
    """The last cast, to float16 or bfloat16, of all that an optimizer holds, unless something casts it back."""
    whole = [p.owner for p in holding_of(context.reading, optimizer).parts if p.amount != "some"]
    owners = {id(owner) for owner in whole}
    # Of a network that is frozen in part, the part that is cast back may be all that is trained.
    inside = {part for owner in whole for part in parts_of(owner)} if _frees(context) else owners
    found: tuple[str, Event] | None = None
    for event in context.trace.calls(".half", ".to", ".type", *_BACK):
        if event.number > step.number or event.context.shadow:
            continue
        inner = wrapped(event.receiver)
        if not isinstance(inner, Obj) or not (id(inner) in inside or owners & parts_of(inner).keys()):
            continue
        kind = _target(event)
        if kind in _HALVES and id(inner) in owners:
            found = kind, event
        elif kind is not None and (kind not in _HALVES or id(inner) not in inside):
            found = None
    return found


def _target(event: Event) -> str | None:
    if event.name == ".half":
        return "float16"
    if event.name in _BACK:
        return {".float": "float32", ".double": "float64"}.get(event.name, "bfloat16")
    for value in (*event.args, *event.kwargs.values()):
        kind = dtype_of(value)
        if kind is not None:
            return kind
    return None


def loaded_as(model: Value | None) -> str | None:
    """The format in which a pretrained model is loaded, where the call says so."""
    base = wrapped(model)
    if not isinstance(base, Obj) or base.cls is not None or not base.name.endswith(".from_pretrained"):
        return None
    if any("quant" in name or "load_in" in name for name in base.kwargs) or base.open_args:
        return None
    given = base.kwargs.get("torch_dtype", base.kwargs.get("dtype"))
    if given is None:
        return None
    value = settle(given)
    if isinstance(value, Known):
        return value.value if value.value in _HALVES else None
    return dtype_of(value)


def weights_of(context: Context, optimizer: Obj, step: Event) -> tuple[str, Event | Obj] | None:
    """The format of the weights that an optimizer holds, when it is not float32, and what made them so."""
    cast = last_cast(context, optimizer, step)
    if cast is not None:
        return cast
    for part in holding_of(context.reading, optimizer).parts:
        kind = loaded_as(part.owner)
        if part.amount == "some" or kind not in _HALVES or _part_by_part(context, part.owner, step):
            continue
        for event in context.trace.calls(*_BACK, ".to", ".type", ".half"):
            if wrapped(event.receiver) is part.owner and _target(event) is not None and event.number < step.number:
                return None  # cast to something else afterwards
        return kind, part.owner
    return None


def format_of(context: Context, model: Value, before: Event) -> tuple[str, Event | Obj] | None:
    """The format of a pretrained model where something begins, when it is not float32, and what made it so.

    Args:
        context: What was read.
        model: The model.
        before: What begins; only casts ahead of that count.
    """
    base = wrapped(model)
    if not isinstance(base, Obj) or _part_by_part(context, base, before):
        return None
    kind = loaded_as(base)
    found: tuple[str, Event | Obj] | None = (kind, base) if kind is not None else None
    for event in context.trace.calls(*_BACK, ".to", ".type", ".half"):
        if wrapped(event.receiver) is not base or event.number > before.number or event.context.shadow:
            continue
        target = _target(event)
        if target is not None:
            found = (target, event) if target in _HALVES else None
    return found


def _part_by_part(context: Context, model: Obj, before: Event) -> bool:
    """Whether parameters are frozen or written one by one, or code that is not followed is given the model.

    Of what is trained then nobody knows the format: the usual way is to cast those alone to float32 that are not frozen.
    """
    trace = context.trace
    if _frees(context) or any(store.name == "data" for store in trace.stores):
        return True
    if any(wrapped(event.receiver) is model for event in trace.calls(".apply")):
        return True
    for event in trace.events:
        if event.number >= before.number:
            break
        known = event.inlined or event.name.startswith((".", "(", "torch.", "builtins.", "transformers."))
        if known or event.name.rpartition(".")[2][:1].isupper():
            continue
        if any(wrapped(given) is model for given in (*event.args, *event.kwargs.values())):
            return True
    return False


def _frees(context: Context) -> bool:
    """Whether a script says of parameters whether they are trained."""
    trace = context.trace
    return bool(trace.calls(".requires_grad_")) or any(store.name == "requires_grad" for store in trace.stores)
