"""Parameters are shared that were shared, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window

_TIMES = 2
_NONE = "none is another one"
_MOST_NAMES = 4


class TiesAlike(Relation):
    """A parameter that was one of its own in the runs this was learnt from is not another one's, and one that was shared still is.

    Learnt is of each model that is trained, in the first two steps, which of its parameters are the very tensors that others
    are, by their names without the numbers in them: tied weights, or layers that are run through again and again.
    """

    name = "ties-alike"
    fields = ("model_of",)
    needs = frozenset({"step", "backward"})
    wakes = frozenset({"step"})
    severity = "warning"
    priority = 41
    learns = True
    least = 1
    support = 1
    cause = "one layer was put into a list several times, weights are no longer tied, or a copy was made that is none"
    advice = "compare where the layer is made, and where its weight is assigned, with a correct run"

    def __init__(self) -> None:
        self._times = 0

    def see(self, window: Window) -> Iterator[Example]:
        steps = steps_of(window)
        if not steps or self._times >= _TIMES:
            return
        self._times += 1
        trained = window.run.trained()
        shared: dict[str, dict[str, list[str]]] = {root: {} for root in trained}
        for one in window.run.variables.values():
            other = window.run.variables.get(one.shared) if one.kind == "parameter" and one.shared >= 0 else None
            if other is not None and one.root in trained:
                said = f"{pattern_of(one.name)} is {pattern_of(other.name)}"
                shared[one.root].setdefault(said, []).append(one.name)
        for root, found in shared.items():
            names = [name for held in found.values() for name in held][:_MOST_NAMES]
            value = ", ".join(sorted(found)) or _NONE
            yield Example((pattern_of(root),), True, {}, tuple(names), call=steps[-1].call, value=value)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = " or ".join(map(str, values_of(subject)))
        return f"Of the parameters of {subject.get('model_of')}, {value}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(-1)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0)


def _run(shared: int) -> list[Window]:
    mini = Mini({"model.words.weight": {}, "model.head.weight": {"shared": shared}})
    return [mini.window("backward", "step optimizer0:SGD") for _ in range(_TIMES)]
