"""The model that is trained is the one that the dry run saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window
from preflight.vocabulary import prediction


class ParametersAsPredicted(Relation):
    """Parameters have the shape and dtype that a dry run of the script saw, and the same ones are trained.

    `preflight check --dry-run --expectations FILE` writes what it saw. Another checkpoint, another configuration or a
    default that an installed version changed make the real model another one; the memory and the time that were
    predicted are then those of something else.
    Told at the first step. Parameters that are spread over ranks are left out: each rank holds a piece.
    """

    name = prediction.PARAMETERS
    fields = ("parameter",)
    needs = frozenset({"step"})
    wakes = needs
    whole = False
    severity = "warning"
    priority = 12
    predicted = True
    unjudged = "the run has no parameter of that name, did not take a step, or spreads it over ranks"
    cause = "the run has other arguments, another checkpoint or other versions than the dry run had"
    advice = "compare the two command lines; where the run is right, do the dry run again with its arguments"

    def __init__(self) -> None:
        self._told: set[int] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("step"):
            number = optimizer_number(call)
            if number in self._told:
                continue
            self._told.add(number)
            for one in window.run.variables.values():
                if one.kind == "parameter" and one.spread is None and (one.optimizer == number or one.optimizer < 0):
                    name = prediction.plain_name(one.name.removeprefix(f"{one.root}."))
                    told = prediction.parameter(one.dtype, one.shape, one.trainable and one.optimizer >= 0)
                    detail = f"The parameter {one.name} is {told}, and the dry run saw another"
                    yield Example((name,), True, {}, (one.name,), call=call, value=told, detail=detail)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return prediction.of_parameter(subject)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [Mini({"model.weight": {"shape": [2, 4]}}).window("step optimizer0:SGD")]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [Mini({"model.weight": {"shape": [2, 8]}}).window("step optimizer0:SGD")]
