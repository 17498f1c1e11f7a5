"""Loss and gradient norm stay in the range of their own past."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_LEAST = 40
_LONG = 200
_ROW = 5
_WATCHED = 40
_GROWTH = 1.1
_WIDTH = 20.0
_HELD = {name: Example((), True, {"number": name}) for name in ("loss", "grad_norm")}
"""What is said of a number that is in its range, by its name."""
_MAD = 1.4826  # a median deviation in standard deviations of a normal distribution


class _Place:
    """The values of one place in the code: the last ones in range, the largest of them, and those out of it since."""

    def __init__(self) -> None:
        self.past: deque[float] = deque(maxlen=_LONG)
        self.most = -math.inf
        self.out: list[float] = []
        self.watched: tuple[float, list[float]] | None = None  # the limit that was left, and what came since

    def take(self, value: float) -> None:
        """Count a value among those in range."""
        past = self.past
        leaves = past[0] if len(past) == _LONG else None
        past.append(value)
        if value >= self.most:
            self.most = value
        elif leaves == self.most:
            self.most = max(past)


class LossInRange(Relation):
    """Loss and gradient norm do not leave the range of the run's last 200 values for good.

    It is broken when five values in a row lie above the largest of those before and more than twenty robust standard
    deviations (of the median of deviations from the median) above their median, none of the forty that follow comes
    back, and the later half of these is higher than the first by a tenth, in the median. Where a new task or another term of
    the loss begins, it leaps as well, and then falls or stays. Judged after forty values, for each
    place in the code by itself. For values that are drawn independently from any one distribution, the last five of n + 5
    values are the five largest with a probability of one in the ways to choose five of them: at a given step, less than
    one in a million after forty values and one in two thousand million after 200, however heavy the tails.
    A loss that measures something else with each step, such as the return of an agent that learns to find rewards, can
    leave its range rightly and go on to grow, which is why this is never more than a warning.
    """

    name = "loss-in-range"
    category = "numerical"
    needs = frozenset({"backward", "scalar"})
    wakes = frozenset({"scalar loss", "scalar grad_norm"})
    whole = False
    severity = "warning"
    priority = 49
    cause = "the rate is too high, a batch is corrupt, or something else than before is computed"
    advice = "look at the rate, the data and the clipping of the steps before, and at the other alarms of this step"

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], _Place] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for _, _, _, _, name, spot, value in window.numbers:
            if name not in _HELD or value is None or value - value != 0:
                continue
            key = name, spot
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = _Place()
            past, out = place.past, place.out
            if place.watched is not None:
                found = self._watch(place, value, name, window)
                if found is not None:
                    yield found
                continue
            if len(past) < _LEAST:
                place.take(value)
                continue
            if value <= place.most or value <= _limit(past):
                for one in out:
                    place.take(one)
                out.clear()
                place.take(value)
                yield _HELD[name]
                continue
            out.append(value)
            if len(out) < _ROW:
                continue
            place.watched = _limit(past), []

    @staticmethod
    def _watch(place: _Place, value: float, name: str, window: Window) -> Example | None:
        """Look whether values that have left their range come back, stay or go on to grow."""
        assert place.watched is not None
        limit, since = place.watched
        since.append(value)
        back = value <= limit
        if not back and len(since) < _WATCHED:
            return None
        place.watched = None
        first, last = (_median(half) for half in (since[: _WATCHED // 2], since[_WATCHED // 2 :] or since))
        wrong = not back and last > first + (_GROWTH - 1) * abs(first)
        count = len(place.past)
        for one in (*place.out, *since):
            place.take(one)
        place.out.clear()
        if not wrong:
            return _HELD[name]
        steps = window.named("step")
        return Example(
            (),
            False,
            {"number": name},
            variables=(name,),
            expected=f"at most {limit:.4g}",
            seen=f"{value:.4g} after {len(since) + _ROW} values above, and growing",
            call=steps[-1] if steps else None,
            detail=f"The {name.replace('_', ' ')} has left the range of {count} values and goes on to grow",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([1.0 + 0.1 * (n % 7) for n in range(60)])
        yield _run([1.0 + 0.1 * (n % 7) for n in range(50)] + [90.0] * 3 + [1.2])
        yield _run([1.0 + 0.1 * (n % 7) for n in range(50)] + [90.0 * 0.97**n for n in range(60)])  # a new task
        yield _run([1.0 + 0.1 * (n % 7) for n in range(50)] + [90.0] * 60)  # another term

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([1.0 + 0.1 * (n % 7) for n in range(50)] + [90.0 * 1.02**n for n in range(45)])


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _limit(past: deque[float]) -> float:
    """The largest of the past, or twenty robust deviations above the median where that is more."""
    ordered = sorted(past)
    median = ordered[len(ordered) // 2]
    deviation = sorted(abs(value - median) for value in ordered)[len(ordered) // 2]
    return max(ordered[-1], median + _WIDTH * _MAD * deviation)


def _run(losses: list[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("backward", ("loss", loss), "step optimizer0:SGD") for loss in losses]
