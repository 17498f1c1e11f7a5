"""What comes from the parameters goes through the operations that it went through."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.edges import departure, named, owner
from preflight.monitor.views.flows import Flows
from preflight.monitor.views.listed import difference
from preflight.monitor.views.options import numbers_of
from preflight.monitor.window import Window

_AMOUNT = re.compile(r"\b(min|max|beta|delta|margin|p|exponent|negative_slope|threshold|lambd)=(-?\d[\d.e+-]*)")
"""Settings of an operation that are amounts: a person may choose these, as the range in which a ratio is clipped."""
_USUAL = (0.0, 1.0)
_SQUARE = ("exponent", 2.0)
_BETWEEN = "; "


class OperationsAlike(Relation):
    """What comes from the parameters goes, on its way to the loss, through the operations that it went through in the runs this was learnt from.

    Learnt is of each layer, by the names of its parameters without the numbers in them, which operations take what it gives and
    in which place, along which axes they go, and which of their settings no size decides (how a loss is reduced, which label
    it leaves out, whether an attention is causal; an amount that the command line chose is a setting): an activation or a mask that is missing, a term that was left
    out, a branch that was detached, queries and keys that were exchanged, a transposition too many. How often an operation
    occurs is no part of it, nor is whatever lays out, casts or drops numbers, because that depends on sizes and settings. It is
    asked of a deeper model, too, where blocks whose parts have names came several times already: of a single one nobody knows
    what a second would take from it, and in a list each place may have another layer. What multiplies or divides all of the loss is left to `losses-divided-alike`. Nothing is said of a layer whose passes go different ways, nor
    before three of them have gone the same one, nor of a graph that is too long or compiled; nor of a run that goes on with the
    state of an optimizer.
    """

    name = "operations-alike"
    fields = ("which", "at")
    needs = frozenset({"backward", "step", "load_state_dict", "flow"})
    wakes = frozenset({"backward", "step", "load_state_dict"})
    severity = "warning"
    priority = 41
    asked = ("layers", "processes", "torch", "attention")
    learns = True
    least = 4
    bounded = True
    cause = "the model or the loss is computed in another way than in the runs this was learnt from"
    advice = "compare what is done with what this layer gives with a correct run: an operation more, one less, or another order"

    def __init__(self) -> None:
        self._flows = Flows()
        self._ways: dict[str, dict[str, set[str]]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        options: Container[float] | None = None
        for which, call in self._flows.due(window, self._take):
            options = numbers_of(window) if options is None else options
            ways = self._ways.get(call.place or "", {})
            whole = any(map(_attends_as_one, ways.values()))
            context = self._flows.context(call, window) | {"attention": "as one" if whole else "by parts"}
            for at, seen in ways.items():
                way = next(iter(seen))
                if len(seen) == 1 and way and not _chosen(way, options):
                    yield Example((which, at), True, context, tuple(at.split(",")), call=call, value=way)

    def _take(self, place: str, told: Mapping[str, Any], first: bool) -> None:
        ways, flow = self._ways.setdefault(place, {}), told["flow"]
        for at in flow if first else flow.keys() | ways.keys():
            ways.setdefault(at, set() if first else {""}).add(_BETWEEN.join(flow.get(at, ())))

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        said = departure(map(_edges, values_of(subject)), _edges(value))
        return f"{_what(subject)} is used in another way than it was learnt: {said}" if said else ""

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        return difference(map(_named, values_of(subject)), _named(value))

    @classmethod
    def words(cls, value: Any) -> str:
        return named(_edges(value))

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        way = " or by ".join(map(cls.words, values_of(subject)))
        return f"{_what(subject)} goes on to the loss so: {way}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(["Relu[0]<Addmm{model.*.weight}", "loss<Mean"])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(["loss<Mean"])


def _attends_as_one(ways: Collection[str]) -> bool:
    """Whether an operation of torch's attends: with dropout, and on some devices, it does so by several simpler ones."""
    return any("ScaledDotProduct" in way for way in ways)


def _chosen(way: str, options: Container[float]) -> bool:
    """Whether an operation has an amount that an option is, or that lies as far from one as an option says."""
    amounts = {float(one) for name, one in _AMOUNT.findall(way) if (name, float(one)) != _SQUARE}.difference(_USUAL)
    return any(round(number, 6) in options for one in amounts for number in (abs(one), abs(one - 1)))


def _what(subject: Mapping[str, Any]) -> str:
    which, at = subject.get("which"), owner(str(subject.get("at") or "")) or "the inputs"
    return f"What {at} gives{f' for the loss number {which + 1}' if which else ''}"


def _edges(way: Any) -> list[str]:
    """What takes what."""
    return str(way).split(_BETWEEN)


def _named(way: Any) -> list[str]:
    return [named([edge]) for edge in _edges(way)]


def _run(edges: list[str]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    flows: list[Any] = [{"model.*.weight": edges}, {}, {}, {}]
    passes = [("backward", {"args": {"flow": one}}) for one in flows]
    return [mini.window(one, "step optimizer0:SGD") for one in [*passes, *["backward"] * 4]]
