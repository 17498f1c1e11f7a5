"""A term that weighed something in a loss still does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.flows import Flows
from preflight.monitor.views.options import zero_was_chosen
from preflight.monitor.window import Window

_SOMETHING, _NOTHING = "a number other than zero", "zero in every look"


class TermsWeighAlike(Relation):
    """What is multiplied by a number of the program is not multiplied by zero where it was not in the runs this was learnt from.

    Learnt is of each product with a number of Python's, by the layer at which it stands: whether the number is another one than
    zero in one of the first looks at its place. How large it is, is nothing of it (`factors-alike`), and it may change from step
    to step, as a weight does that comes in slowly. Against it is a product that is with zero in all of these looks: a
    weight that never comes in, or a term that was switched off.
    Of what begins at zero nothing is learnt. A run is not judged where somebody chose a zero, on the command line or as a
    constant, nor where it goes on with the state of an optimizer.
    """

    name = "terms-weigh-alike"
    fields = ("which", "what")
    needs = frozenset({"backward", "step", "load_state_dict", "flow"})
    wakes = frozenset({"backward", "step", "load_state_dict"})
    severity = "warning"
    priority = 45
    asked = ("layers", "processes", "torch")
    learns = True
    least = 2
    support = 2
    cause = "the weight of a term is zero: it is never raised, is computed by whole numbers, or was switched off"
    advice = "look at what the weight of the term is computed from, and print it"

    def __init__(self) -> None:
        self._flows = Flows()
        self._weights: dict[str, dict[str, bool]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for which, call in self._flows.due(window, self._take):
            if zero_was_chosen(window.run):
                return
            context = self._flows.context(call, window)
            for what, weighs in self._weights.get(call.place or "", {}).items():
                names = tuple(what.partition("|")[0].split(","))
                yield Example((which, what), True, context, names, call=call, value=_SOMETHING if weighs else _NOTHING)

    def _take(self, place: str, told: Mapping[str, Any], first: bool) -> None:
        known = self._weights.setdefault(place, {})
        for what, weighs in (told.get("weights") or {}).items():
            known[what] = known.get(what, False) or bool(weighs)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return bool(subject.get("value") != _SOMETHING)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        which, (at, _, edge) = subject.get("which"), str(subject.get("what")).partition("|")
        loss = f" number {which + 1}" if which else ""
        taken = edge.replace("<", " of ")
        return f"On the way to the loss{loss}, at {at or 'the inputs'}, {taken} is by {subject.get('value')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(False, True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(False, False)


def _run(*weighs: bool) -> list[Window]:
    mini = Mini({"model.weight": {}})
    what = "model.weight|Mul<Mean"
    flows: list[Any] = [{"flow": {"model.weight": ["loss<Add"]}, "weights": {what: one}} for one in weighs]
    passes = [("backward", {"args": one}) for one in (*flows, {"flow": {}}, {"flow": {}})]
    return [mini.window(one, "step optimizer0:SGD") for one in [*passes, *["backward"] * 4]]
