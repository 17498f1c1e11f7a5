"""Settings of the Hugging Face trainer and its relatives as a script gives them: explicit values only, no defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.trace import name_of
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
    name = (name_of(settle(given)) if given is not None else None) or ""
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


_ADAPTING = frozenset({"peft.get_peft_model", "peft.prepare_model_for_kbit_training", "peft.PeftModel.from_pretrained"})
_LOADING = frozenset({"from_pretrained", "from_config"})


def loaded_model(value: Value | None, adapted: bool = True) -> Obj | None:
    """The call that loaded or made a library's model, seen through adapters and moves; None where it is not seen.

    Args:
        value: What is given where a model is wanted.
        adapted: Whether to see through adapters that were added to it; without, a model with adapters is None.
    """
    for _ in range(12):
        base = settle(value) if value is not None else None
        if not isinstance(base, Obj) or base.kind != "call" or base.cls is not None:
            return None
        if base.name in _ADAPTING:
            if not adapted and base.name != "peft.prepare_model_for_kbit_training":
                return None
            value = base.argument(0, "model")
        elif base.name in (".to", ".cuda", ".train", ".eval"):
            value = base.receiver
        else:
            library = base.name.startswith("transformers.")
            return base if library and (base.name.split(".")[-1] in _LOADING or base.name.endswith("LM")) else None
    return None
