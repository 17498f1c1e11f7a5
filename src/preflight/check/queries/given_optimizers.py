"""Optimizers that a function is given and nobody was seen to make: the order of what is done with one in each pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from preflight.check.context import Context
from preflight.check.queries.updates import guards, managed
from preflight.source.trace import Event, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, Unknown, settle


def computed_before(loop: TrainingLoop, event: Event) -> bool:
    """Whether all of the loss that a pass computes was seen to be computed before an event of that pass."""
    numbers = [e.number for e in loop.events if e.result is not None and id(e.result) in loop.behind_losses]
    return bool(numbers) and max(numbers) < event.number


def belongs_to_loss(loop: TrainingLoop, clip: Event) -> bool:
    """Whether the gradients that are clipped are those of the one module that is seen to compute the loss.

    Of several that are handed in, the optimizer may hold another, and this one's gradients may be used later.
    """
    value = clip.argument(0, "parameters")
    parameters = settle(value) if value is not None else None
    if not isinstance(parameters, Obj) or parameters.name != ".parameters" or parameters.receiver is None:
        return False
    holder = settle(parameters.receiver)
    losses = [settle(loss) for loss in loop.losses()]
    behind = [settle(part) for loss in losses for part in provenance(loss)]
    called = [part for part in behind if isinstance(part, Obj) and part.name in ("?", "()") and part not in losses]
    return any(part is holder for part in behind) and all(
        any(settle(one) is holder for one in provenance(part.receiver, 12)) for part in called
    )


@dataclass(frozen=True)
class GivenUpdate:
    """One pass of a loop whose optimizer, backward and clearings are plain to see.

    Attributes:
        loop: The loop.
        backward: The one event that computes gradients.
        step: The one step.
        zeros: What clears the gradients, in order; at least one.
        clips: What clips gradients in each pass, in order.
    """

    loop: TrainingLoop
    backward: Event
    step: Event
    zeros: tuple[Event, ...]
    clips: tuple[Event, ...]


def given_updates(context: Context) -> Iterator[GivenUpdate]:
    """Each loop with one backward and one step of an optimizer that was handed in, all in each pass or under one test.

    Such a thing is an optimizer by its use: it clears and it steps.
    """
    if managed(context):
        return
    for loop in context.reading.loops:
        if len(loop.backwards) != 1 or len(loop.steps) != 1 or not loop.zeros:
            continue
        backward, step = loop.backwards[0], loop.steps[0]
        optimizer = settle(step.receiver) if step.receiver is not None else None
        if not isinstance(optimizer, Unknown) or context.roles.of(optimizer) != "optimizer" or step.args or step.kwargs:
            continue
        if any(e.name == "torch.autograd.grad" for e in loop.events):
            continue  # gradients that are set by hand may be what is clipped or stepped on
        events = (backward, step, *loop.zeros, *loop.clips)
        if any(settle(z.receiver) is not optimizer for z in loop.zeros if z.receiver is not None):
            continue
        asked = guards(step, loop.frame)
        if all(e.context.loops()[:1] == [loop.frame] and guards(e, loop.frame) == asked for e in events):
            yield GivenUpdate(loop, backward, step, tuple(loop.zeros), tuple(loop.clips))
