"""Evaluation loops: loops in which a network that is trained is called and nothing is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.check.queries.handed_on import hands_on_optimizer
from preflight.check.queries.kept_graphs import recorded, switched_globally, used_in_losses
from preflight.check.queries.loaders import feeding, trains
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event
from preflight.source.values import Dict, Obj, Seq, options_of

if TYPE_CHECKING:
    from preflight.check.context import Context


class Evaluation:
    """One loop that evaluates.

    Attributes:
        frame: The loop.
        calls: The calls of trained networks inside it for which gradients are recorded.
        inside: All events of the loop.
    """

    def __init__(self, frame: Frame, calls: list[Event], inside: list[Event]) -> None:
        """Keep the parts."""
        self.frame = frame
        self.calls = calls
        self.inside = inside


# Signs that gradients are wanted in a loop that trains nothing: attacks, forces, penalties, sensitivity.
_WANTED = (
    ".requires_grad_", "torch.autograd.grad", "torch.autograd.functional.jacobian", "torch.autograd.functional.hessian",
    "torch.enable_grad", "torch.func.grad", "torch.func.jacrev", "torch.func.vmap", ".retain_grad",
)  # fmt: skip


def evaluations_with_gradients(context: Context) -> list[Evaluation]:
    """The evaluation loops in which gradients are recorded although nothing uses them, innermost loops first."""
    if "_evaluations" in context.__dict__:
        found: list[Evaluation] = context.__dict__["_evaluations"]
        return found
    result: list[Evaluation] = []
    if context.reading.loops and not switched_globally(context):
        models = {id(m) for m in context.reading.models}
        used = used_in_losses(context)
        feeds = feeding(context)
        places: set[int] = set()
        for frame in sorted(feeds.frames, key=lambda f: -f.depth):
            inside = feeds.inside(frame)
            calls = [e for e in inside if e.name == "()" and _is_one_of(e, models)]
            if not calls or any(_may_train(context, e) or _wants(e) for e in inside):
                continue
            calls = [
                e for e in calls if recorded(e.context) is True and not e.context.shadow and not feeds_loss(e, used)
            ]
            if not calls or id(calls[0].node) in places or _inner(frame, result) or not _iterates_data(context, frame):
                continue
            places.add(id(calls[0].node))
            result.append(Evaluation(frame, calls, inside))
    context.__dict__["_evaluations"] = result
    return result


def _wants(event: Event) -> bool:
    """Whether gradients may be wanted: a policy that is sampled is mostly trained on its log-probabilities later."""
    return event.name in _WANTED or event.name.startswith("torch.distributions.")


def _is_one_of(event: Event, models: set[int]) -> bool:
    """Whether the outermost network that an event calls is one that is trained."""
    return any(id(o) in models or id(wrapped(o)) in models for o in options_of(event.receiver, limit=4))


def _may_train(context: Context, event: Event) -> bool:
    """Whether an event computes gradients or may do so out of sight: an unknown function that is given the optimizer."""
    return trains(context, event) or hands_on_optimizer(context, event)


def feeds_loss(event: Event, used: set[int]) -> bool:
    """Whether some loss is computed from what a network returned, or from a part of it."""
    for option in options_of(event.result):
        parts = option.items if isinstance(option, Seq) else option.entries.values() if isinstance(option, Dict) else ()
        if any(id(o) in used for value in (option, *parts) for o in options_of(value)):
            return True
    return False


def _inner(frame: Frame, found: list[Evaluation]) -> bool:
    """Whether an evaluation was already found in a loop inside this one."""
    return any(e.frame.within(frame) for e in found)


def _iterates_data(context: Context, frame: Frame) -> bool:
    """Whether a loop goes through data: anything but a plain count, which may be a rollout or one probe."""
    value = frame.value
    return value is not None and not (isinstance(value, Obj) and value.name == "builtins.range" and frame.unrolled)
