"""An optimizer trains as many parameters as the dry run saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window
from preflight.vocabulary import prediction


class TrainedAsPredicted(Relation):
    """The parameters that an optimizer trains are as many, and have as many elements, as a dry run of the script saw.

    `preflight check --dry-run --expectations FILE` writes what it saw. A layer that the real run has and the dry run
    had not, or the other way round, is no parameter with another shape: only the sum tells of it.
    Told at the first step of rank 0. Where parameters are spread over ranks it is left out: a rank holds pieces.
    """

    name = prediction.TRAINED
    fields = ("optimizer",)
    needs = frozenset({"step"})
    wakes = needs
    whole = False
    severity = "warning"
    priority = 12
    predicted = True
    unjudged = "that optimizer did not take a step, or its parameters are spread over ranks"
    cause = "the run has other arguments, another checkpoint or other versions than the dry run had"
    advice = "compare the two command lines; where the run is right, do the dry run again with its arguments"

    def __init__(self) -> None:
        self._told: set[int] = set()

    def see(self, window: Window) -> Iterator[Example]:
        if window.run.rank != 0:
            return
        for call in window.named("step"):
            number = optimizer_number(call)
            if number in self._told:
                continue
            self._told.add(number)
            held = [one for one in window.run.variables.values() if one.kind == "parameter" and one.optimizer == number]
            if any(one.spread is not None for one in held):
                continue
            told = prediction.trained(one.shape for one in held if one.trainable)
            detail = f"{call.object} trains {told}, and the dry run saw others"
            yield Example((number,), True, {}, (call.object,), call=call, value=told, detail=detail)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return prediction.of_trained(subject)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [Mini({"model.weight": {"shape": [2, 4]}}).window("step optimizer0:SGD")]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        two = {"model.0.weight": {"shape": [2, 4]}, "model.1.weight": {"shape": [2, 4]}}
        yield [Mini(two).window("step optimizer0:SGD")]
