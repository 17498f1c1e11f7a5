"""Settings of the Hugging Face trainer and its relatives as a script gives them: explicit values only, no defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.values import Known, Obj, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_MISSING = object()


def argument_objects(context: Context) -> list[Obj]:
    """TrainingArguments and the configurations of trl that derive from them, on the path that the defaults take."""
    found = list(context.reading.made("training_arguments"))
    for event in context.trace.calls_under("trl."):
        made = event.result
        if event.name.endswith("Config") and isinstance(made, Obj) and event.name.count(".") == 1:
            found.append(made)
    return [o for o in found if o.context is None or not o.context.shadow]


def explicit(arguments: Obj, *names: str) -> Value | None:
    """The value of the first of several names (old and new ones) that is given."""
    for name in names:
        value = arguments.kwargs.get(name)
        if value is None:
            held = arguments.attrs.get(name)
            value = held if held is not None and not (isinstance(held, Obj) and held.kind == "attr") else None
        if value is not None:
            return value
    return None


def known(context: Context, arguments: Obj, default: object, *names: str) -> object:
    """The plain value of a setting: ``default`` where it is not given, None where it is given and not known."""
    value = explicit(arguments, *names)
    if value is None:
        return None if arguments.open_args else default
    return context.value(value)


def strategy(context: Context, arguments: Obj, default: str, *names: str) -> str | None:
    """A strategy by its text: ``steps``, ``epoch``, ``no``; members of the library's enumeration count as their text."""
    value = known(context, arguments, _MISSING, *names)
    if value is _MISSING:
        return default
    if isinstance(value, str):
        return value.lower()
    given = explicit(arguments, *names)
    name = getattr(settle(given), "name", "") if given is not None else ""
    if name.rpartition(".")[0].endswith("IntervalStrategy"):
        return str(name.rpartition(".")[2]).lower()
    return None


def trainers_of(context: Context, arguments: Obj) -> list[Obj]:
    """The trainers that are given these arguments."""
    found = []
    for trainer in context.reading.made("trainer"):
        given = trainer.argument(1, "args")
        if given is not None and settle(given) is arguments:
            found.append(trainer)
    return found


def is_none(value: Value | None) -> bool:
    """Whether a value is the literal None."""
    return isinstance(value, Known) and value.value is None and not value.soft
