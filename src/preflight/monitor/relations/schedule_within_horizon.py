"""A schedule is not stepped past its end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window

_EACH = 2
"""Steps between two advances of a schedule that goes by steps; two optimizers may step in turns."""
_ROUNDED_UP = 1.25
"""How far beyond its length a schedule may come that advances once for each rank; with a length of one rank it is twice."""


class ScheduleWithinHorizon(Relation):
    """A cosine schedule that was given a length does not go on past it, where its rate rises again.

    ``CosineAnnealingLR`` falls for ``T_max`` steps and then swings back up the same way. A length that was counted in
    epochs, with a step of the schedule in every iteration, gives a rate that goes up and down all through the run.
    So do the cosine schedules of transformers after their number of training steps; they get there early where they are
    made for the steps of one rank and advance once for each rank, as Accelerate has it.
    Judged when the count passes the length and the rate is higher than at the step before. A schedule that advances once in
    several steps was not given a length in epochs by mistake: there the cycles are meant. One that advances several times
    in a step, once for each rank, may go a quarter further: in each epoch the batches of a rank are rounded up.
    """

    name = "schedule-within-horizon"
    needs = frozenset({"scheduler.step"})
    wakes = frozenset({"scheduler.step"})
    whole = False
    severity = "warning"
    priority = 27
    cause = (
        "the length of the schedule counts epochs and it is stepped in every iteration, it is stepped once for each rank, "
        "or the run is longer than it"
    )
    advice = "give the schedule the number of times it is stepped, or use CosineAnnealingWarmRestarts for cycles"

    def __init__(self) -> None:
        self._often: set[str] = set()  # schedulers that advance several times in a step
        self._advanced: dict[str, int] = {}  # by scheduler: the steps that had been made at its last advance

    def see(self, window: Window) -> Iterator[Example]:
        steps_of(window)  # which counts those of the windows before
        made = [call.q for call in window.named("step")]
        for call in window.named("scheduler.step"):
            word = str((call.args or {}).get("index"))
            steps = window.made + bisect_left(made, call.q)
            between = steps - self._advanced.get(word, -_EACH - 1)
            self._advanced[word] = steps
            if not between:
                self._often.add(word)
            told, after = call.args or {}, call.result or {}
            length = told.get("total", told.get("horizon") if call.object == "CosineAnnealingLR" else None)
            if length is None or not isinstance(after.get("count"), int):
                continue
            before, now = told.get("before") or [], after.get("rates") or []
            rises = len(before) == len(now) and any(b > a * (1 + 1e-9) for a, b in zip(before, now, strict=True))
            most = length * _ROUNDED_UP if "total" in told and word in self._often else length
            wrong = after["count"] > most and rises and between <= _EACH
            yield Example(
                (),
                not wrong,
                {"scheduler": call.object},
                variables=(call.object,) if wrong else (),
                expected=f"at most {length} steps of the schedule",
                seen=f"step {after['count']}, with a rate that rises" if wrong else None,
                call=call,
                detail=f"{call.object} goes on past its length of {length} steps" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(4)
        yield _run(5, 6, steps=10)  # advanced once in an epoch
        yield _run(3, 4, kind="LambdaLR", word="total")
        yield _run(2, 3, 4, 5, kind="LambdaLR", word="total", each=2)  # the share of each rank was rounded up

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(5, 6)
        yield _run(5, 6, kind="LambdaLR", word="total")
        yield _run(3, 4, 5, 6, kind="LambdaLR", word="total", each=2)


def _run(
    *counts: int, steps: int = 1, each: int = 1, kind: str = "CosineAnnealingLR", word: str = "horizon"
) -> list[Window]:
    """Advances of a schedule of length 4 to these counts, with so many steps before so many of them."""
    rates = [0.1, 0.075, 0.05, 0.025, 0.0, 0.025, 0.05]
    mini = Mini({"model.weight": {}})
    windows = []
    for number, count in enumerate(counts):
        more = {
            "args": {word: 4, "before": [rates[count - 1]]},
            "result": {"count": count, "rates": [rates[count]]},
        }
        row = (f"scheduler.step {kind}", more)
        windows.append(mini.window(*["step optimizer0:SGD"] * (0 if number % each else steps), row))
    return windows
