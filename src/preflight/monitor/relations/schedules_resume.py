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
    state of one that was a few steps on. One that was restored, or made with where it is to go on, counts from there; one
    that is advanced before the next step is brought there by hand. Where a schedule of the same optimizer has advanced
    before, what is begun anew is another phase of the training.
    """

    name = "schedules-resume"
    needs = frozenset({"load", "load_state_dict", "step", "scheduler.step"})
    wakes = frozenset({"load", "load_state_dict", "scheduler.step"})
    repeats = 2
    looks = frozenset({"load", "load_state_dict", "step", "scheduler.step"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "the scheduler's state was saved, and scheduler.load_state_dict() was not called"
    advice = "restore the scheduler, too: scheduler.load_state_dict(checkpoint[...])"

    def __init__(self) -> None:
        self._read = 0  # how far a schedule was whose state was read from a file
        self._restored: dict[str, tuple[int, Call]] = {}
        """By optimizer that was restored and not advanced since: how far a schedule was, nought where it was restored, too."""
        self._advanced: set[str] = set()  # optimizers whose schedule has advanced

    def see(self, window: Window) -> Iterator[Example]:
        calls = [*window.named("load"), *window.named("load_state_dict"), *window.named("scheduler.step")]
        for call in sorted(calls, key=ORDER):
            told = call.args or {}
            optimizer = str(told.get("optimizer"))
            if call.name == "load":
                self._read = max((call.result or {}).get("schedules") or [0])
            elif call.name == "scheduler.step":
                far, restored = self._restored.pop(optimizer, (0, None))
                if restored is not None:
                    yield self._judge(call, far if _stepped_between(restored, call, window) else 0)
                self._advanced.add(optimizer)
            elif "scheduler" in told:
                self._restored[optimizer] = 0, call
            elif call.object.startswith("optimizer") and self._read >= _FAR:
                self._restored[call.object] = 0 if call.object in self._advanced else self._read, call

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
        yield _resumed(loaded=True)
        yield _resumed(loaded=False, count=12)  # made with where it is to go on
        brought = [_advance(count) for count in range(12)]  # advanced as often as it was before
        yield [Mini({"model.weight": {}}).window(*_READ, *brought, "backward", "step optimizer0:Adam", _advance(12))]
        mini = Mini({"model.weight": {}})  # another phase begins at the best weights so far, with a schedule of its own
        first = mini.window("backward", "step optimizer0:Adam", _advance(3))
        yield [first, mini.window(*_READ, "backward", "step optimizer0:Adam", _advance(0))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _resumed(loaded=False)


_READ = (
    ("load", {"result": {"schedules": [12]}}),
    ("load_state_dict optimizer0:Adam", {"args": {"state": 2, "rates": [0.01]}}),
)


def _stepped_between(restored: Call, advance: Call, window: Window) -> bool:
    """Whether a step came between what was restored and the first advance of a schedule."""
    return restored.i < advance.i or any(restored.q < call.q < advance.q for call in window.named("step"))


def _advance(count: int) -> tuple[str, dict[str, object]]:
    return "scheduler.step LambdaLR", {"args": {"index": 0, "optimizer": "optimizer0:Adam", "count": count}}


def _resumed(loaded: bool, count: int = 0) -> list[Window]:
    mini = Mini({"model.weight": {}})
    restored = ("load_state_dict LambdaLR", {"args": {"scheduler": 0, "optimizer": "optimizer0:Adam", "count": 12}})
    trained = ("backward", "step optimizer0:Adam", _advance(12 if loaded else count))
    return [mini.window(*_READ, *((restored,) if loaded else ()), *trained)]
