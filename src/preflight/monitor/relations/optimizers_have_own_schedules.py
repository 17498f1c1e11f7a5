"""Two schedules of one kind do not share an optimizer while another one has none."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.schedules import Advance, advances_of
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window


class OptimizersHaveOwnSchedules(Relation):
    """Where several optimizers train, two schedules of one kind do not go on over the same one while another has none.

    A copied line makes both schedules of an adversarial network steer the generator's optimizer: its rate falls twice as
    fast, and the discriminator's stays where it was.
    Judged are two schedules of one class that advance over one optimizer, both again and again or for the first time
    between the same two steps, while another optimizer steps that no schedule ever had.
    Schedules of different classes that are stepped one after the other are meant to work together.
    """

    name = "optimizers-have-own-schedules"
    needs = frozenset({"scheduler.step", "step"})
    follows = (advances_of,)
    wakes = frozenset({"scheduler.step", "step"})
    repeats = 2
    looks = frozenset({"scheduler.step", "step"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "a schedule was made for the wrong optimizer, as where a line is copied"
    advice = "hand each schedule the optimizer whose rate it is to set"

    def __init__(self) -> None:
        self._stepping: set[int] = set()
        self._steered: set[int] = set()
        self._last: dict[int, tuple[Advance, int]] = {}  # by optimizer: the last advance, and its steps then

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("step"):
            self._stepping.add(optimizer_number(call))
        for advance in advances_of(window):
            self._steered.add(advance.optimizer)
            before = self._last.get(advance.optimizer)
            self._last[advance.optimizer] = advance, advance.steps
            if not advance.steps or len(self._stepping) < 2:
                continue
            bare = sorted(self._stepping - self._steered - {-1})
            twice = before is not None and self._share(before[0], before[1], advance)
            wrong = twice and bool(bare)
            names = (advance.call.object, f"optimizer{advance.optimizer}", *(f"optimizer{one}" for one in bare))
            yield Example(
                (),
                not wrong,
                {"scheduler": advance.call.object},
                variables=names if wrong else (),
                expected="a schedule of its own for each optimizer",
                seen=f"two for optimizer{advance.optimizer}, none for {', '.join(names[2:])}" if wrong else None,
                call=advance.call,
                detail=f"Two schedules of one kind set the rate of optimizer{advance.optimizer}, and none that of another"
                if wrong
                else "",
            )

    @staticmethod
    def _share(one: Advance, steps: int, two: Advance) -> bool:
        return one.scheduler != two.scheduler and one.call.object == two.call.object and steps == two.steps

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(("scheduler.step StepLR", 0, 0), ("scheduler.step StepLR", 1, 1))
        yield _run(("scheduler.step LinearLR", 0, 0), ("scheduler.step StepLR", 1, 0))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(("scheduler.step StepLR", 0, 0), ("scheduler.step StepLR", 1, 0))


def _run(*advances: tuple[str, int, int]) -> list[Window]:
    mini = Mini({"model.weight": {}, "other.weight": {"optimizer": 1}})
    rows = [
        (call, {"args": {"index": index, "optimizer": f"optimizer{optimizer}:SGD"}})
        for call, index, optimizer in advances
    ]
    steps = ("backward", "step optimizer0:SGD", "backward", "step optimizer1:SGD")
    return [mini.window(*steps, *rows) for _ in range(3)]
