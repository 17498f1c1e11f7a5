"""A loss and a model multiply and divide by the numbers that they did."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.flows import Flows
from preflight.monitor.views.options import numbers_of
from preflight.monitor.window import Window


class FactorsAlike(Relation):
    """A number that the program wrote into its loss or its model is the one of the runs this was learnt from.

    Learnt is of each operation that multiplies or divides by a short decimal, by the layer at which it stands: a temperature, the
    weight of a term. Left out are numbers that a size in the graph explains, as one over a batch or a width, those that are
    options of the command line, and those that differ within the first three passes of their place, as what a plan changes
    does. Nothing is said of a run that goes on with the state of an optimizer.
    """

    name = "factors-alike"
    fields = ("which", "what")
    needs = frozenset({"backward", "step", "load_state_dict", "flow"})
    wakes = frozenset({"backward", "step", "load_state_dict"})
    severity = "warning"
    priority = 46
    asked = ("layers", "processes", "torch")
    learns = True
    least = 4
    cause = "a temperature, the weight of a term, or another number in the code is not what it was in the runs this was learnt from"
    advice = "look where the loss is put together, and at what the number is taken from"

    def __init__(self) -> None:
        self._flows = Flows()
        self._numbers: dict[str, dict[str, set[float | None]]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        options: Container[float] | None = None
        for which, call in self._flows.due(window, self._take):
            options = numbers_of(window) if options is None else options
            context = self._flows.context(call, window)
            for what, numbers in self._numbers.get(call.place or "", {}).items():
                (number, *others) = numbers
                if not others and number is not None and abs(number) not in options:
                    names = tuple(what.partition("|")[0].split(","))
                    yield Example((which, what), True, context, names, call=call, value=number)

    def _take(self, place: str, told: Mapping[str, Any], first: bool) -> None:
        known, now = self._numbers.setdefault(place, {}), told.get("factors") or {}
        for what in now.keys() | known.keys():
            known.setdefault(what, set() if first else {None}).add(now.get(what))

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        which, (at, _, edge) = subject.get("which"), str(subject.get("what")).partition("|")
        numbers = values_of(subject)
        taken = edge.replace("<", " of ")
        loss = f" number {which + 1}" if which else ""
        return f"On the way to the loss{loss}, at {at or 'the inputs'}, {taken} is by {' or '.join(map(cls.words, numbers))}"

    @classmethod
    def words(cls, value: Any) -> str:
        return f"{value:g}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.07)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.7)


def _run(number: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told = {"flow": {"model.weight": ["loss<Div"]}, "factors": {"model.weight|Div[0]<Mm{model.weight}": number}}
    flows: list[Any] = [told, {"flow": {}}, {"flow": {}}]
    passes = [("backward", {"args": one}) for one in flows]
    return [mini.window(one, "step optimizer0:SGD") for one in [*passes, *["backward"] * 4]]
