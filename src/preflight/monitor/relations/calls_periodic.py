"""What happens once a step or once an epoch goes on to do so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_CALLS = ("scheduler.step", "epoch", "save")
_OFTEN = ("once a step", "several times a step", "once an epoch")


class CallsPeriodic(Relation):
    """What happens once a step, or once an epoch, goes on to do so.

    Learnt for the advance of a schedule, the numbers of epochs and checkpoints: whether each comes with every step, or
    once for every pass through a loader. How many steps that are depends on the data and on the batch, and is not learnt:
    nothing is said where a pass begins between two steps, which may be both, nor where one place advances a schedule
    again before the next step, as some do once for each rank.
    """

    name = "calls-periodic"
    fields = ("call", "object")
    needs = frozenset({"step", "loop", *_CALLS})
    wakes = frozenset({"step", "scaler.step", "loop", *_CALLS})
    severity = "warning"
    priority = 47
    learns = True
    cause = "a call has moved into or out of a loop"
    advice = "compare where the call stands with the program this was learnt from"

    def __init__(self) -> None:
        self._steps = self._loops = 0
        self._scaled = False
        self._last: dict[tuple[str, str], tuple[int, int, str | None]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        self._scaled = self._scaled or bool(window.named("scaler.step"))
        for call in window.plain:
            if call.name == ("scaler.step" if self._scaled else "step"):
                self._steps += 1  # a scaler may skip a step, and the loop goes on as if it had been one
            elif call.name == "loop":
                self._loops += 1
            elif call.name in _CALLS:
                subject = call.name, call.object
                known = self._last.get(subject)
                self._last[subject] = self._steps, self._loops, call.place
                often = self._often(known, call.place) if known is not None else None
                if often:
                    yield Example(subject, True, {}, (call.object or call.name,), call=call, value=often)

    def _often(self, known: tuple[int, int, str | None], place: str | None) -> str | None:
        """How often a call comes that came before; None where it is settings that decide over it."""
        steps, loops = self._steps - known[0], self._loops - known[1]
        if not steps:
            return _OFTEN[1] if place != known[2] else None
        if steps == 1:
            return _OFTEN[0] if not loops else None
        return _OFTEN[2] if loops else "every few steps"

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") not in _OFTEN  # how many steps lie between two is a matter of the settings

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{subject.get('call')} {subject.get('object')} comes {subject.get('value')}".replace("  ", " ")

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([1] * 8)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([1] * 8 + [2])


def _run(steps: list[int]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window(*["step optimizer0:SGD"] * count, "scheduler.step LambdaLR") for count in steps]
