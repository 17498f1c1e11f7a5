"""The loss is not the same at every step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_STEPS = 20


class LossMoves(Relation):
    """The loss of one place in the code is not the same number for twenty steps in a row.

    A loss that does not change in its last bit, while an optimizer steps at a rate above zero, does not depend on the
    weights that are trained: they are not the ones that the model uses, or something in between is saturated.
    A loss of exactly zero is not judged: losses with a margin rest there.
    """

    name = "loss-moves"
    needs = frozenset({"backward", "step", "scalar"})
    wakes = frozenset({"step", "scalar lr", "scalar loss"})
    severity = "warning"
    priority = 40
    cause = "the loss does not depend on the weights that the optimizer changes, or its input is saturated or constant"
    advice = (
        "check that the model that is called is the one whose parameters the optimizer has, and look at the outputs"
    )

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}
        self._steps = 0
        self._stepped_at: dict[str, int] = {}
        self._rate = 1.0

    def see(self, window: Window) -> Iterator[Example]:
        steps = window.named("step")
        for number in window.numbers:
            if number.name == "lr" and number.value is not None:
                self._rate = number.value
            if number.name != "loss" or not number.value:
                continue
            before, count = self._last.get(number.object, (None, 0))
            stepped = self._steps + sum(call.q < number.q for call in steps)
            moved = self._stepped_at.get(number.object) != stepped and self._rate > 0
            count = count + moved if number.value == before else 0
            self._last[number.object] = number.value, count
            self._stepped_at[number.object] = stepped
            wrong = count >= _STEPS
            if not wrong:
                yield Example((), True, {})
                continue
            yield Example(
                (),
                False,
                {},
                variables=("loss",),
                expected="a loss that changes as the weights do",
                seen=f"{number.value:g} for {count} steps",
                call=steps[-1] if steps else None,
                detail=f"The loss has been exactly {number.value:g} for {count} steps",
            )
        self._steps += len(steps)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", ("loss", 1.0 / (n + 1)), "step optimizer0:SGD") for n in range(30)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", ("loss", 2.3), "step optimizer0:SGD") for _ in range(30)]
