"""Numbers of the training stay on their side of zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class NumberSign(Relation):
    """A loss, a norm of gradients, a rate or a scale that was always above zero is above zero.

    Learnt for each number by its name; losses of different places in the code are told apart by their order of
    appearance, so that the lines may move.
    """

    name = "number-sign"
    fields = ("number", "which")
    needs = frozenset({"scalar"})
    wakes = frozenset({"scalar"})
    severity = "warning"
    priority = 48
    learns = True
    cause = "the number is computed in another way than in the runs this was learnt from, or a decay has gone too far"
    advice = "look at how the number is computed at the place that is named"

    def __init__(self) -> None:
        self._places: dict[str, dict[str, int]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        seen: set[Any] = set()
        for one in window.numbers:
            if one.value is None or one.value != one.value:
                continue
            places = self._places.setdefault(one.name, {})
            which = places.setdefault(one.object, len(places)) if one.name in ("loss", "grad_norm") else one.object
            sign = "above zero" if one.value > 0 else "below zero" if one.value < 0 else "zero"
            key = (one.name, which, sign)
            if key not in seen:
                seen.add(key)
                steps = window.named("step")
                call = steps[-1] if steps else None
                yield Example((one.name, which), True, {}, (one.name,), call=call, value=sign)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = subject.get("value", " or ".join(map(str, subject.get("values", ()))))
        return f"{subject.get('number')} {subject.get('which')} is {value}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.5] * 8)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.5] * 8 + [-0.5])


def _run(losses: list[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("backward", ("loss", loss), "step optimizer0:SGD") for loss in losses]
