"""Each forward pass of a step is passed back where each was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window

_EACH, _TOGETHER = "each by itself", "several together or not at all"


class ForwardsPassedBack(Relation):
    """Where a step runs a model several times from one place, and each pass led to a backward pass of its own, it still does.

    Micro-batches and chunks are passed forward and back, one after the other, however many they are. Where ``backward`` has
    slipped out of their loop, the last one alone is learnt from. Judged are steps with several forward passes of a model from one
    place in the code, in training mode and with gradients. Nothing is learnt of a program that passes several back
    together, as one does that adds up their losses; nor of steps with one forward pass.
    """

    name = "forwards-passed-back"
    fields = ("called",)
    needs = frozenset({"step", "forward", "backward"})
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 42
    learns = True
    cause = "backward() is called once for several forward passes, the graphs of which are dropped"
    advice = "look at where backward() stands: in the loop over the micro-batches, or behind it"

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            for name, calls in _repeated(step).items():
                value = _EACH if _passed_back(calls, step.named("backward")) else _TOGETHER
                yield Example((pattern_of(name),), True, {}, (name,), call=calls[-1], value=value)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != _EACH

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"The forward passes of {subject.get('called')} in a step are passed back {subject.get('value', _EACH)}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("forward", "backward", "forward", "backward")
        yield _run("forward", "backward", "forward", "backward", "forward", "backward")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("forward", "forward", "backward")


def _repeated(step: Step) -> dict[str, list[Call]]:
    """The forward passes of a step with gradients, of models that are run several times from one place and from no other."""
    found: dict[str, list[Call]] = {}
    for call in step.named("forward"):
        if call.context.startswith("grad") and (call.args or {}).get("training"):
            found.setdefault(call.object, []).append(call)
    return {name: calls for name, calls in found.items() if len(calls) > 1 and len({call.place for call in calls}) == 1}


def _passed_back(forwards: list[Call], backwards: list[Call]) -> bool:
    """Whether a backward pass follows each forward pass before the next one."""
    ends = [call.q for call in forwards[1:]] + [float("inf")]
    return all(any(call.e < back.q < end for back in backwards) for call, end in zip(forwards, ends, strict=True))


def _run(*calls: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told = ("forward model", {"args": {"training": True}})
    rows = [told if call == "forward" else call for call in calls]
    return [mini.window(*rows, "step optimizer0:SGD") for _ in range(8)]
