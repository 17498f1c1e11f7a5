"""Why a value is not known, in words."""

from __future__ import annotations

from preflight.source.values.choices import Choice, settle
from preflight.source.values.kinds import Obj, Unknown, Value


def why_unknown(value: Value | None) -> str:
    """Say why a value is not known, in one phrase."""
    if value is None:
        return "not given"
    value = settle(value)
    if isinstance(value, Unknown):
        return value.reason
    if isinstance(value, Choice):
        return "depends on a branch that cannot be decided without running the script"
    if isinstance(value, Obj):
        return _why_made(value)
    return "not a plain value"


# What a number in a script usually waits for, by the call it comes from.
_CAUSES = {
    "torch.distributed.get_world_size": "depends on the world size: give --gpus or --launch",
    "torch.cuda.device_count": "depends on the number of GPUs: give --gpus or --launch",
    "builtins.open": "comes from a file that is read at run time",
    "pickle.load": "comes from a file that is read at run time",
    "torch.load": "comes from a file that is read at run time",
}


def _why_made(value: Obj) -> str:
    stack: list[Value] = [value]
    for _ in range(40):
        if not stack:
            break
        part = settle(stack.pop(0))
        if isinstance(part, Obj):
            if part.name in _CAUSES:
                return _CAUSES[part.name]
            stack += [v for v in (part.receiver, *part.args, *part.kwargs.values()) if v is not None]
        elif isinstance(part, Unknown):
            return part.reason
    what = (value.cls.qualname if value.cls is not None else value.name).lstrip(".")
    if not what:
        return "an item of something that is known only at run time"
    return f"result of {what}()" if value.kind == "call" else f"computed by {what}"
