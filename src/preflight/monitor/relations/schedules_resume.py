"""Where an optimizer goes on from a checkpoint, its schedule does."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Window

_FAR = 2
"""Steps of a saved schedule from which on it makes a difference whether it goes on."""


class SchedulesResume(Relation):
    """A schedule whose state lies in the checkpoint that its optimizer was restored from does not begin anew.

    The optimizer gets back its moments and the rate that it had; a scheduler that is made beside it, and whose state was
    saved but not loaded, counts from nought: the rate jumps back to the beginning of the warm-up, and the decay comes too
    late.
    Judged at the first advance of a scheduler after its optimizer was restored, when a file had been read that holds the
    state of one that was a few steps on. One that was restored, or made with where it is to go on, counts from there.
    """

    name = "schedules-resume"
    needs = frozenset({"load", "load_state_dict", "scheduler.step"})
    wakes = frozenset({"load", "load_state_dict", "scheduler.step"})
    repeats = 2
    looks = frozenset({"load", "load_state_dict", "scheduler.step"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "the scheduler's state was saved, and scheduler.load_state_dict() was not called"
    advice = "restore the scheduler, too: scheduler.load_state_dict(checkpoint[...])"

    def __init__(self) -> None:
        self._read = 0  # how far a schedule was whose state was read from a file
        self._restored: dict[str, int] = {}
        """By optimizer that was restored and not advanced since: how far a schedule was, nought where it was restored, too."""

    def see(self, window: Window) -> Iterator[Example]:
        calls = [*window.named("load"), *window.named("load_state_dict"), *window.named("scheduler.step")]
        for call in sorted(calls, key=ORDER):
            told = call.args or {}
            if call.name == "load":
                self._read = max((call.result or {}).get("schedules") or [0])
            elif call.name == "scheduler.step":
                far = self._restored.pop(str(told.get("optimizer")), None)
                if far is not None:
                    yield self._judge(call, far)
            elif "scheduler" in told:
                self._restored[str(told.get("optimizer"))] = 0
            elif call.object.startswith("optimizer") and self._read >= _FAR:
                self._restored[call.object] = self._read

    @staticmethod
    def _judge(call: Call, far: int) -> Example:
        told = call.args or {}
        wrong = far > 0 and told.get("count") == 0
        return Example(
            (),
            not wrong,
            {"scheduler": call.object},
            variables=(call.object, str(told.get("optimizer"))) if wrong else (),
            expected=f"a schedule that goes on after {far} steps" if wrong else None,
            seen="one that counts from nought" if wrong else None,
            call=call,
            detail=f"{call.object} begins anew although its optimizer was restored" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _resumed(12, loaded=True)
        yield _resumed(12, loaded=False, count=12)  # made with where it is to go on

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _resumed(12, loaded=False)


def _resumed(saved: int, loaded: bool, count: int = 0) -> list[Window]:
    mini = Mini({"model.weight": {}})
    own = {"index": 0, "optimizer": "optimizer0:Adam"}
    restored = ("load_state_dict LambdaLR", {"args": {"scheduler": 0, "optimizer": "optimizer0:Adam", "count": saved}})
    advance = ("scheduler.step LambdaLR", {"args": {**own, "count": saved if loaded else count}})
    return [
        mini.window(
            ("load", {"result": {"schedules": [saved]}}),
            ("load_state_dict optimizer0:Adam", {"args": {"state": 2, "rates": [0.01]}}),
            *((restored,) if loaded else ()),
            "backward",
            "step optimizer0:Adam",
            advance,
        )
    ]
