"""A schedule whose length counts steps is stepped with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window

_FEWEST = 20
"""Steps of a run below which a length that is the same may be so by chance, where lengths of its kind count steps."""
_MANY = 1000
"""The same, where they count epochs as often: a run that is ended early may have as many steps as it should have had epochs."""
_TIMES = 2
"""Steps of the schedule, at least."""
_EACH = 2
"""Steps of the optimizer for each of the schedule, at least."""


class ScheduleInSteps(Relation):
    """A schedule that was given as many steps as the training has is advanced once in each of them.

    ``OneCycleLR(total_steps=epochs * len(loader))`` with ``scheduler.step()`` after the epoch has come to its tenth step
    when the training is over: of the warm-up only a beginning was seen, and the rate never came near what was meant. So it
    is with a cosine and with a linear decay, which then hardly falls.
    Judged at the end of a program that ended by itself, of schedules of the first optimizer. It is broken where the length of
    the schedule is the very number of steps that the optimizer had made when the schedule was advanced last, and the
    schedule was advanced twice and more, but at most once in two of them. Of a cosine, whose length may as well be one in
    epochs, only lengths of a thousand steps and more are judged.
    """

    name = "schedule-in-steps"
    needs = frozenset({"scheduler.step", "step"})
    wakes = frozenset({"scheduler.step", "note end"})
    whole = False
    severity = "warning"
    priority = 24
    cause = "scheduler.step() stands after the epoch, and the length of the schedule counts batches"
    advice = "call scheduler.step() after each optimizer.step(), or give the schedule its length in epochs"

    def __init__(self) -> None:
        self._last: dict[tuple[Any, str], Call] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("scheduler.step"):
            told = call.args or {}
            if str(told.get("optimizer")).startswith("optimizer0:") and told.get("total", told.get("horizon")):
                self._last[told.get("index"), call.object] = call
        for note in window.notes.get("end", ()):
            yield from self._judge(note.get("how") == "exit")

    def _judge(self, ended: bool) -> Iterator[Example]:
        for call in self._last.values():
            told = call.args or {}
            length, count = told.get("total", told.get("horizon")), (call.result or {}).get("count")
            if not isinstance(count, int) or not isinstance(length, int):
                continue
            fewest = _FEWEST if call.object == "OneCycleLR" or "total" in told else _MANY
            wrong = ended and fewest <= length == call.s and _TIMES <= count <= call.s / _EACH
            yield Example(
                (),
                not wrong,
                {"scheduler": call.object},
                variables=(call.object,) if wrong else (),
                expected=f"{length} steps of the schedule, which was made for so many" if wrong else None,
                seen=f"{count}, in {call.s} steps of the optimizer" if wrong else None,
                call=call,
                detail=f"{call.object} was made for {length} steps and advanced {count} times in them" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(length=40, each=1)
        yield _run(length=10)  # counted in epochs, as it is stepped
        yield _run(length=400)  # ended early
        yield _run(how="signal")
        yield _run(kind="CosineAnnealingLR")  # ended after as many steps as it was to have epochs

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run()
        yield _run(word="total", kind="LambdaLR")
        yield _run(length=_MANY, each=50, kind="CosineAnnealingLR", steps=_MANY)


def _run(
    length: int = 40,
    each: int = 4,
    how: str = "exit",
    word: str = "horizon",
    kind: str = "OneCycleLR",
    steps: int = 40,
) -> list[Window]:
    """Steps of an optimizer, with one of its schedule after so many of them."""
    mini = Mini({"model.weight": {}})
    windows = []
    for step in range(1, steps + 1):
        told = {"index": 0, "optimizer": "optimizer0:Adam", word: length}
        row = (f"scheduler.step {kind}", {"args": told, "result": {"count": step // each}})
        windows.append(mini.window("backward", "step optimizer0:Adam", *([row] if step % each == 0 else [])))
    return [*windows, mini.window(("note", "end", {"how": how}))]
