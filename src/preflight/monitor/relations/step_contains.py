"""Each step comes with the calls that belong to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Premise, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window

CALLS = (
    *("zero_grad", "backward", "autograd.grad", "forward", "fetch", "clip_grad_norm", "clip_grad_value"),
    *("scaler.scale", "scaler.unscale", "scaler.update", "scheduler.step"),
)

THEN = {
    "fetch": ("forward",),
    "forward": ("backward", "autograd.grad"),
    "zero_grad": ("backward",),
    "scaler.scale": ("backward",),
    "backward": ("scaler.unscale", "clip_grad_norm", "clip_grad_value"),
    "scaler.unscale": ("clip_grad_norm", "clip_grad_value"),
}
"""Which call hands what it made to which other: only between these an order means something."""


class StepContains(Relation):
    """Between two steps of an optimizer the same calls occur as in the runs this was learnt from.

    For each kind of optimizer and each call of the training loop (clearing, backward pass, clipping, unscaling, advance
    of the schedule, next batch): whether it occurs between two steps. Calls that name an optimizer count for their own
    only, and others in its own turn, so that it is a setting how often a critic steps for one step of its generator. The first step of an optimizer is told apart, because the calls that follow a step come after it.
    A schedule is not looked for before the first step, nor where a pass through a loader begins between the steps, because an epoch of a single
    batch has as many of both; nor is any call of a gradient scaler where there is none at all, as without mixed precision.
    """

    name = "step-contains"
    fields = ("optimizer", "call")
    needs = frozenset({"step", "loop", *CALLS})
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 41
    learns = True
    cause = "a call of the training loop is missing or stands in a branch that is not taken any more"
    advice = "compare the training loop with the one this was learnt from"

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            kind = step.call.object.split(":")[-1]
            closure = bool((step.call.args or {}).get("closure"))
            context = {"first": step.done == 0, "closure": closure}
            found = {call.name for call in belonging(step)}
            for name in CALLS:
                if not counts(name, step):
                    continue
                holds = name in found
                if holds:
                    yield Example((kind, name), True, context)
                    continue
                yield Example(
                    (kind, name),
                    False,
                    context,
                    variables=(step.call.object,),
                    expected=f"{spoken(name)} before the step",
                    seen=f"no {spoken(name)} since the step before",
                    call=step.call,
                )

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{spoken(subject.get('call'))} occurs between two steps of {subject.get('optimizer')}"

    @classmethod
    def follows_from(cls, subject: Mapping[str, Any]) -> Iterator[tuple[Premise, ...]]:
        optimizer, call = subject.get("optimizer"), subject.get("call")
        yield (Premise("calls-per-step", {"optimizer": optimizer, "call": call}),)
        for then in THEN.get(str(call), ()):
            order = Premise("calls-in-order", {"optimizer": optimizer, "first": call, "then": then})
            for other in ("calls-per-step", "step-contains"):
                yield order, Premise(other, {"optimizer": optimizer, "call": then})

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("zero_grad optimizer0:SGD", "backward", "step optimizer0:SGD") for _ in range(8)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        first = [mini.window("zero_grad optimizer0:SGD", "backward", "step optimizer0:SGD") for _ in range(8)]
        yield [*first, mini.window("backward", "step optimizer0:SGD")]


def spoken(name: object) -> str:
    """A call as a program writes it."""
    return f"{name}_" if str(name).startswith("clip_grad") else str(name)


def counts(name: str, step: Step) -> bool:
    """Whether it is no setting, such as the size of a batch or the precision, that decides over a call before a step."""
    if name == "scheduler.step":
        return step.done > 0 and not step.named("loop")
    if name.startswith("scaler."):
        return any(call.name.startswith("scaler.") for call in step.between)
    return True


def belonging(step: Step) -> list[Call]:
    """The calls since the step before that name its optimizer, or none and come in its own turn."""
    turn = step.turn
    since = turn[0].q if turn else -1
    named = (call for call in step.between if call.q < since and _told(call).startswith("optimizer"))
    return [call for call in (*named, *turn) if mine(call, step)]


def mine(call: Call, step: Step) -> bool:
    """Whether a call belongs to the optimizer of a step, or to none in particular."""
    told = _told(call)
    return not told.startswith("optimizer") or told.split(":")[0] == f"optimizer{step.optimizer}"


def _told(call: Call) -> str:
    """What a call is told to be of: of a schedule, the optimizer that it is of."""
    if call.name == "scheduler.step":
        return (call.args or {}).get("optimizer") or (call.result or {}).get("optimizer") or ""
    return call.object
