"""Adapters that a script adds to a model: by PEFT itself, or by a trainer that is given their configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.values import Obj, Value, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading


def adapter_config(trainer: Obj) -> Value | None:
    """What a trainer is given as ``peft_config``; None where it adds no adapters by itself."""
    given = trainer.kwargs.get("peft_config")
    value = settle(given) if given is not None else None
    return value if value is not None and getattr(value, "value", value) is not None else None


def adapter_configs(reading: Reading) -> list[Value]:
    """The configurations of all adapters that are added, in order; those of other branches are left out."""
    found = [
        settle(event.argument(1, "peft_config") or event.args[-1])
        for event in reading.trace.calls("peft.get_peft_model")
        if not event.context.shadow and (event.args or event.kwargs)
    ]
    for trainer in reading.made("trainer"):
        given = adapter_config(trainer)
        if given is not None and not (trainer.context is not None and trainer.context.shadow):
            found.append(given)
    return found
