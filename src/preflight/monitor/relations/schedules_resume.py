"""Where an optimizer goes on from a checkpoint, its schedule does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Window
from preflight.vocabulary.counted import counted

_FAR = 2
"""Steps of a saved schedule from which on it makes a difference whether it goes on."""
_JUMP = 1.2
"""How many times that a rate must change with the first advance, where the file holds no state of a schedule."""
_ENDED = 0.01
"""The share of its first rate at which a schedule is at its end."""


class _Restored(NamedTuple):
    """An optimizer that was restored: how far a saved schedule was, or the rates and first rates of one that was not saved."""

    call: Call
    far: int = 0
    rates: tuple[float, ...] = ()
    first: tuple[float, ...] = ()


class SchedulesResume(Relation):
    """A schedule whose state lies in the checkpoint that its optimizer was restored from does not begin anew.

    The optimizer gets back its moments and the rate that it had; a scheduler that is made beside it, and whose state was
    saved but not loaded, counts from nought: the rate jumps back to the beginning of the warm-up, and the decay comes too
    late.
    Judged at the first advance of a scheduler after its optimizer was restored, when a file had been read right before that
    holds the state of one that was a few steps on. One that was restored, or made with where it is to go on, counts from
    there; one that is advanced before the next step is brought there by hand. Where a schedule of the same optimizer has
    advanced before, what is begun anew is another phase of the training.
    Of a file without any schedule's state, the optimizer's own tells that it had one: its groups hold a first rate beside
    the one that they had come to. A schedule that is made with that first rate, counts from nought and takes the rate
    elsewhere with its first advance was not saved, and begins anew as well. One with another first rate is a new phase, and
    so is one that follows a schedule that had come to its end. One that was made with the rate that the groups had come to
    goes on from there: its function counts from where the other one was, or that one had not advanced yet.
    """

    name = "schedules-resume"
    needs = frozenset({"load", "load_state_dict", "step", "scheduler.step"})
    wakes = frozenset({"load", "load_state_dict", "scheduler.step"})
    repeats = 2
    looks = frozenset({"load", "load_state_dict", "step", "scheduler.step"})
    whole = False
    severity = "warning"
    priority = 22
    cause = "scheduler.load_state_dict() was not called, or the state of the scheduler was not even saved"
    advice = "save the state of the scheduler and restore it, too: scheduler.load_state_dict(checkpoint[...])"

    def __init__(self) -> None:
        self._read: Call | None = None  # the file that was read last
        self._restored: dict[str, _Restored] = {}  # optimizers that were restored and not advanced since
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
                restored = self._restored.pop(optimizer, None)
                if restored is not None:
                    known = optimizer in self._advanced or told.get("index") in self._loaded
                    judged = not known and _stepped_between(restored.call, call, window)
                    yield self._judge(call, restored if judged else None)
                self._advanced.add(optimizer)
            elif "scheduler" in told:
                self._loaded.add(told["scheduler"])
                self._restored[optimizer] = _Restored(call)
            elif call.object.startswith("optimizer") and self._read is not None:
                self._restored[call.object] = self._taken(self._read, call, window)

    @staticmethod
    def _taken(read: Call, restored: Call, window: Window) -> _Restored:
        """What an optimizer that is restored from a file tells of a schedule; nothing where it is of no use."""
        if _stepped_between(read, restored, window):
            return _Restored(restored)
        saved, told = (read.result or {}).get("schedules"), restored.args or {}
        if saved:
            far = max(saved)
            return _Restored(restored, 0 if far < _FAR else far)
        rates, first = _numbers(told, "rates"), _numbers(told, "first")
        under_way = told.get("state") and len(rates) == len(first) > 0 and rates != first
        ended = max(rates, default=0.0) <= _ENDED * max(first, default=0.0)
        return _Restored(restored, 0, rates, first) if under_way and not ended else _Restored(restored)

    @staticmethod
    def _judge(call: Call, restored: _Restored | None) -> Example:
        told, result = call.args or {}, call.result or {}
        begins = told.get("count") == 0 and restored is not None
        expected = None
        if begins and restored is not None and restored.far:
            expected = f"a schedule that goes on after {counted(restored.far, 'step')}"
        elif begins and restored is not None and _anew(restored, told, result):
            expected = f"a schedule that goes on from the rate {restored.rates[0]:g}"
        wrong = expected is not None
        return Example(
            (),
            not wrong,
            {"scheduler": call.object},
            variables=(call.object, str(told.get("optimizer"))) if wrong else (),
            expected=expected,
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
        yield _unsaved(0.004, 0.01, 0.0041)  # it was brought to where it was
        yield _unsaved(0.004, 0.01, 0.0002, base=0.005)  # another phase
        yield _unsaved(0.00001, 0.01, 0.0002)  # one that follows on a schedule that was over
        yield _unsaved(0.01, 0.01, 0.0002)  # none was under way
        yield _unsaved(0.002, 0.01, 0.004, made=0.002)  # it had not advanced yet, or goes on by a function of its own
        mini = Mini({"model.weight": {}})  # weights are taken from a file; the optimizer is put back after a few trials
        first = mini.window(_READ[0], "backward", "step optimizer0:Adam")
        yield [first, mini.window(_READ[1], *_trained(0))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _resumed(loaded=False)
        yield _unsaved(0.004, 0.01, 0.0002)


_READ = (
    ("load", {"result": {"schedules": [12]}}),
    ("load_state_dict optimizer0:Adam", {"args": {"state": 2, "rates": [0.01]}}),
)


def _numbers(told: Mapping[str, Any], key: str) -> tuple[float, ...]:
    """Numbers of groups, all of them known; else none."""
    found = told.get(key) or ()
    return tuple(found) if all(isinstance(one, (int, float)) for one in found) else ()


def _anew(restored: _Restored, told: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether a schedule with the first rates of one that was not saved takes the rates elsewhere with its first advance."""
    base, made, after = _numbers(told, "base"), _numbers(told, "made"), _numbers(result, "rates")
    if base != restored.first or not base or not len(after) == len(base) == len(made):
        return False
    return all(any(_far_apart(*pair) for pair in zip(restored.rates, one, strict=True)) for one in (made, after))


def _far_apart(one: float, other: float) -> bool:
    low, high = sorted((abs(one), abs(other)))
    return high > _JUMP * low


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


def _unsaved(
    rate: float, first: float, after: float, base: float | None = None, made: float | None = None
) -> list[Window]:
    """A resume from a file without the state of a schedule."""
    mini = Mini({"model.weight": {}})
    restored = {"args": {"state": 2, "rates": [rate], "first": [first]}}
    told = {"index": 0, "optimizer": "optimizer0:Adam", "count": 0, "base": [first if base is None else base]}
    told["made"] = [first if made is None else made]
    advance = ("scheduler.step LambdaLR", {"args": told, "result": {"rates": [after]}})
    read: tuple[str, dict[str, object]] = ("load", {"result": {}})
    return [
        mini.window(read, ("load_state_dict optimizer0:Adam", restored), "backward", "step optimizer0:Adam", advance)
    ]
