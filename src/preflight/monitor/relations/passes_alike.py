"""Models are run in the modes that they were, with gradients where these were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Call, Window

_EARLY = 11
"""Iterations from the first one of a model on in which its gradients are looked at: later a plan may freeze or thaw it."""
_ROW = 6
"""As many without gradients tell that it is run without: one that is trained in every fifth iteration may begin so."""
_MOST = 4
"""Passes of an iteration that are counted."""
_EVALUATION = "evaluation mode"


class PassesAlike(Relation):
    """A model that is only ever evaluated in evaluation mode is not run otherwise, and gradients are recorded as they were.

    Learnt of each model that the program calls, by its name: that passes without gradients (evaluations, teachers, targets) are
    in evaluation mode, where all of them are; a pass is against that where it drops, or follows statistics. And whether the
    first eleven iterations with a step in which it is called run it with gradients, or none of them does: a
    model that takes part in the loss and comes to be called under ``no_grad``, or a target through which gradients begin to flow.
    The latter is not asked of a run that goes on with the state of an optimizer: its first steps are not the first of the training.
    """

    name = "passes-alike"
    fields = ("called", "what")
    needs = frozenset({"forward", "step", "backward", "load_state_dict"})
    wakes = frozenset({"forward", "backward", "load_state_dict"})
    severity = "warning"
    priority = 38
    least = 2
    support = 2
    learns = True
    cause = "eval(), train(), no_grad() or detach() stands in another place than in the runs this was learnt from"
    advice = "look at the mode of the model, and at the context in which it is called"

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._with: set[str] = set()

    def see(self, window: Window) -> Iterator[Example]:
        passes: dict[str, list[Call]] = {}
        for call in window.named("forward"):
            passes.setdefault(pattern_of(call.object), []).append(call)
        stepped = not is_resumed(window) and bool(steps_of(window))
        for name, calls in passes.items():
            yield from self._modes(name, calls)
            if stepped:
                yield from self._recorded(name, calls)

    @staticmethod
    def _modes(name: str, calls: list[Call]) -> Iterator[Example]:
        for call in [call for call in calls if not call.context.startswith("grad")][:_MOST]:
            told = call.args or {}
            if not told.get("training"):
                value = _EVALUATION
            elif told.get("dropout") or told.get("norm") or told.get("norms"):
                value = "training mode" + (" with dropout" if told.get("dropout") else "")
                value += " with statistics that are followed" if told.get("norm") else ""
                value += " with norms of the batch" if told.get("norms") and not told.get("norm") else ""
            else:
                continue
            yield Example((name, "mode"), True, {}, (call.object,), call=call, value=value)

    def _recorded(self, name: str, calls: list[Call]) -> Iterator[Example]:
        times = self._times[name] = self._times.get(name, 0) + 1
        recorded = [call for call in calls if call.context.startswith("grad")]
        if recorded:
            self._with.add(name)
        ever = name in self._with
        if times > _EARLY or (not ever and times < _ROW):
            return
        value = "with gradients" if ever else "without gradients"
        call = (recorded or calls)[0]
        yield Example((name, "gradients"), True, {}, (call.object,), call=call, value=value)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        value = str(subject.get("value", "training"))  # where there is more than one, none is expected
        return value.startswith("training")

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        if subject.get("what") == "mode":
            return f"{subject.get('called')} is in {subject.get('value')} when it is run without gradients"
        return f"{subject.get('called')} is run {subject.get('value')} in the first iterations"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(False, "nograd")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(True, "nograd")
        yield _run(False, "grad")


def _run(training: bool, context: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told = {"args": {"training": training, "dropout": training, "type": "Net"}, "context": context}
    return [
        mini.window("forward model", ("forward teacher", told), "backward", "step optimizer0:SGD")
        for _ in range(_EARLY)
    ]
