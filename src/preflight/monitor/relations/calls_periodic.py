"""What happens now and then happens at the same distance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_CALLS = ("scheduler.step", "save", "epoch", "loop", "load_state_dict")


class CallsPeriodic(Relation):
    """The schedule advances, checkpoints are saved and epochs begin after the same number of steps each time.

    Learnt for each call and object: how many steps of optimizers lie between one and the next.
    """

    name = "calls-periodic"
    fields = ("call", "object")
    needs = frozenset({"step", *_CALLS})
    wakes = frozenset({"step", *_CALLS})
    severity = "warning"
    priority = 47
    learns = True
    cause = "a call has moved into or out of a loop, or the length of an epoch has changed"
    advice = "compare how often the call is made with the run this was learnt from"

    def __init__(self) -> None:
        self._steps = 0
        self._last: dict[tuple[str, str], int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.plain:
            if call.name == "step":
                self._steps += 1
            elif call.name in _CALLS:
                subject = call.name, call.object
                before = self._last.get(subject)
                self._last[subject] = self._steps
                if before is not None:
                    variables = (call.object or call.name,)
                    yield Example(subject, True, {}, variables, call=call, value=self._steps - before)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = subject.get("value", "one of " + ", ".join(map(str, subject.get("values", ()))))
        return f"{subject.get('call')} {subject.get('object')} comes every {value} steps".replace("  ", " ")

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([2] * 8)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([2] * 8 + [1])


def _run(steps: list[int]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window(*["step optimizer0:SGD"] * count, "scheduler.step LambdaLR") for count in steps]
