"""Steps: what happens in each pass of a training loop, and what only sometimes; what is on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, parents_of, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Ext, Known, Obj, Value, settle

if TYPE_CHECKING:
    from preflight.check.context import Context


def each_pass(place: Frame, loop: Frame) -> bool:
    """Whether a place inside a loop is reached in each of its passes, as far as the defaults lead.

    A branch counts as always taken only where its test is known; what is under any other branch, or in the handler
    of an exception, happens only sometimes.
    """
    if place.shadow:
        return False
    for frame in place.frames():
        if frame is loop:
            return True
        if frame.kind == "except" or (frame.kind == "if" and frame.taken is not True):
            return False
    return False


def inner_loops(place: Frame, loop: Frame) -> list[Frame]:
    """The loops between a place and a loop around it, innermost first."""
    found = []
    for frame in place.frames():
        if frame is loop:
            break
        if frame.kind == "loop":
            found.append(frame)
    return found


def step_loops(context: Context) -> list[TrainingLoop]:
    """The training loops that the defaults lead to."""
    return [loop for loop in context.reading.loops if not loop.frame.shadow]


def on_gpu(value: Value | None) -> bool | None:
    """Whether a device is a GPU; None where it cannot be known."""
    base = settle(value) if value is not None else None
    if isinstance(base, Known):
        if isinstance(base.value, str):
            return base.value.startswith(("cuda", "hip"))
        return True if isinstance(base.value, int) and not isinstance(base.value, bool) else None
    if isinstance(base, Obj) and base.name == "torch.device" and base.args:
        return on_gpu(base.args[0])
    if isinstance(base, Obj) and base.name in ("torch.cuda.current_device", "torch.accelerator.current_accelerator"):
        return True
    return None


def moves_to_gpu(event: Event) -> bool | None:
    """Whether a ``.to`` or ``.cuda`` call moves to a GPU; None where the device is not known."""
    if event.name == ".cuda":
        return True
    if event.name != ".to":
        return False
    given = event.argument(0, "device")
    base = settle(given) if given is not None else None
    if isinstance(base, Ext):
        return False  # a data type
    return on_gpu(given)


def uses_gpu(context: Context) -> bool:
    """Whether something of the script is put on a GPU by the defaults, or a library that does so trains."""
    found = context.__dict__.get("_uses_gpu")
    if found is None:
        found = bool(context.trace.calls(".cuda")) or any(moves_to_gpu(e) for e in context.trace.calls(".to"))
        roles = ("accelerator", "fabric", "engine", "trainer", "lightning_trainer")
        found = found or any(context.reading.made(role) for role in roles)
        context.__dict__["_uses_gpu"] = found
    return bool(found)


def from_network(context: Context, value: Value | None) -> bool:
    """Whether a value is computed from what a network returned or from its parameters, without a copy to the host."""
    from preflight.source.evaluate.library.methods import is_module

    stack: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while stack and len(seen) < 200:
        for part in provenance(stack.pop(), 1):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, Obj):
                if (part.name == "()" and is_module(part.receiver)) or part.name in (
                    ".parameters",
                    ".named_parameters",
                ):
                    return True
                if part.name in HOST or (part.kind == "attr" and part.name in ("shape", "dtype", "device")):
                    continue
                if part.name.startswith(_ELSEWHERE):
                    continue
            stack.extend(_parents(part))
    return False


HOST = frozenset(
    (".item", ".tolist", ".cpu", ".numpy", "builtins.float", "builtins.int", "builtins.len", ".size", ".numel")
)
_ELSEWHERE = ("numpy.", "builtins.", "torch.utils.", "torch.distributed.", "sklearn.", "time.")


def _parents(value: Value) -> list[Value]:
    return list(parents_of(value))
