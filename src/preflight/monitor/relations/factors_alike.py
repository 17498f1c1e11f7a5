"""A loss and a model multiply and divide by the numbers that they did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.scope import numbers_of, processes_of, torch_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Call, Window

_LOOKS = 3
_MOST_TOLD = 7


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
    asked = ("how_many_parameters", "passes", "processes", "torch")
    learns = True
    least = 4
    cause = "a temperature, the weight of a term, or another number in the code is not what it was in the runs this was learnt from"
    advice = "look where the loss is put together, and at what the number is taken from"

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._numbers: dict[str, dict[str, set[float | None]]] = {}
        self._looks: dict[str, int] = {}
        self._said: dict[str, int] = {}
        self._several: set[str] = set()

    def see(self, window: Window) -> Iterator[Example]:
        passes = window.named("backward")
        if is_resumed(window) or (passes and all(self._said.get(one.place or "", 0) >= _MOST_TOLD for one in passes)):
            return
        stepped = {step.call.q: step for step in steps_of(window)}
        for call in window.plain:
            if call.name == "backward":
                self._take(call)
            elif call.q in stepped:
                yield from self._judge(stepped[call.q].named("backward"), window)

    def _take(self, call: Call) -> None:
        place, told = call.place or "", call.args or {}
        self._places.setdefault(place, len(self._places))
        if "flow" not in told:
            return
        looks = self._looks[place] = self._looks.get(place, 0) + 1
        if not told["flow"]:
            return
        known, now = self._numbers.setdefault(place, {}), told.get("factors") or {}
        for what in now.keys() | known.keys():
            known.setdefault(what, {None} if looks > 1 else set()).add(now.get(what))

    def _judge(self, passes: Sequence[Call], window: Window) -> Iterator[Example]:
        places = [call.place or "" for call in passes]
        self._several.update(place for place in places if places.count(place) > 1)
        options = numbers_of(window)
        for call in {call.place: call for call in passes}.values():
            place = call.place or ""
            if self._looks.get(place, 0) < _LOOKS or self._said.get(place, 0) >= _MOST_TOLD:
                continue
            self._said[place] = self._said.get(place, 0) + 1
            context = {
                "how_many_parameters": sum(one.kind == "parameter" for one in window.run.variables.values()),
                "passes": "several" if place in self._several else "one",
                "processes": processes_of(window),
                "torch": torch_of(window),
            }
            for what, numbers in self._numbers.get(place, {}).items():
                (number, *others) = numbers
                if not others and number is not None and abs(number) not in options:
                    names = tuple(what.partition("|")[0].split(","))
                    yield Example((self._places[place], what), True, context, names, call=call, value=number)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        which, (at, _, edge) = subject.get("which"), str(subject.get("what")).partition("|")
        numbers = [subject["value"]] if "value" in subject else subject.get("values", ())
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
