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
    Judged at the first advance of a scheduler after its optimizer was restored, when a file had been read right before that
    holds the state of one that was a few steps on. One that was restored, or made with where it is to go on, counts from
    there; one that is advanced before the next step is brought there by hand. Where a schedule of the same optimizer has
    advanced before, what is begun anew is another phase of the training.
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
        self._read: Call | None = None  # the file that was read last
        self._restored: dict[str, tuple[int, Call]] = {}
        """By optimizer that was restored and not advanced since: how far a schedule was, nought where it was restored, too."""
        self._advanced: set[str] = set()  # optimizers whose schedule has advanced
        self._loaded: set[object] = set()  # numbers of schedulers that were restored

    def see(self, window: Window) -> Iterator[Example]:
        calls = [*window.named("load"), *window.named("load_state_dict"), *window.named("scheduler.step")]
        for call in sorted(calls, key=ORDER):
            told = call.args or {}
            optimizer = str(told.get("optimizer"))
            if call.name == "load":
                self._read = call
            elif call.name == "scheduler.step":
                far, restored = self._restored.pop(optimizer, (0, None))
                if restored is not None:
                    known = optimizer in self._advanced or told.get("index") in self._loaded
                    yield self._judge(call, 0 if known or not _stepped_between(restored, call, window) else far)
                self._advanced.add(optimizer)
            elif "scheduler" in told:
                self._loaded.add(told["scheduler"])
                self._restored[optimizer] = 0, call
            elif call.object.startswith("optimizer") and self._read is not None:
                self._restored[call.object] = self._far(self._read, call, window), call

    @staticmethod
    def _far(read: Call, restored: Call, window: Window) -> int:
        """How far on a schedule is whose state lies in the file that an optimizer is restored from; nought where it is not."""
        far = max((read.result or {}).get("schedules") or [0])
        return 0 if far < _FAR or _stepped_between(read, restored, window) else far

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
        yield [Mini({"model.weight": {}}).window(_READ[0], _restored(0), _READ[1], *_trained(0))]  # a later one's turn
        yield _resumed(loaded=False, count=12)  # made with where it is to go on
        brought = [_advance(count) for count in range(12)]  # advanced as often as it was before
        yield [Mini({"model.weight": {}}).window(*_READ, *brought, *_trained(12))]
        mini = Mini({"model.weight": {}})  # another phase begins at the best weights so far, with a schedule of its own
        first = mini.window(*_trained(3))
        yield [first, mini.window(*_READ, *_trained(0))]
        mini = Mini({"model.weight": {}})  # weights are taken from a file; the optimizer is put back after a few trials
        first = mini.window(_READ[0], "backward", "step optimizer0:Adam")
        yield [first, mini.window(_READ[1], *_trained(0))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _resumed(loaded=False)


_READ = (
    ("load", {"result": {"schedules": [12]}}),
    ("load_state_dict optimizer0:Adam", {"args": {"state": 2, "rates": [0.01]}}),
)


def _stepped_between(before: Call, after: Call, window: Window) -> bool:
    """Whether a step came between two calls, the second of which is of this window: iterations end with one."""
    return before.i < after.i or any(before.q < call.q < after.q for call in window.named("step"))


def _advance(count: int) -> tuple[str, dict[str, object]]:
    return "scheduler.step LambdaLR", {"args": {"index": 0, "optimizer": "optimizer0:Adam", "count": count}}


def _restored(count: int) -> tuple[str, dict[str, object]]:
    return "load_state_dict LambdaLR", {"args": {"scheduler": 0, "optimizer": "optimizer0:Adam", "count": count}}


def _trained(count: int) -> tuple[object, ...]:
    return "backward", "step optimizer0:Adam", _advance(count)


def _resumed(loaded: bool, count: int = 0) -> list[Window]:
    mini = Mini({"model.weight": {}})
    restored = (_restored(12),) if loaded else ()
    return [mini.window(*_READ, *restored, *_trained(12 if loaded else count))]
