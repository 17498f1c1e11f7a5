"""A trained network is not moved towards a copy of it that rests."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.quantity import format_share

_SLOW, _FAST, _LEFT = "kept.slow", "kept.fast", "kept.left"
_ROUNDED = 6e-8
"""What rounding a number of 32 bits may make of it, as a share."""
_CLEAR = 20
"""How many times that a sum must have moved, to be seen to move."""
_ALIKE = 0.1
"""How far the shares by which matrices came nearer may lie apart, of the least."""
_LEAST = 3
"""Matrices that must come nearer by one share."""
_TIMES = 2


class _Look(NamedTuple):
    """By the name of a matrix, the sums over a copy's and over the trained one, before and after a step."""

    step: int
    slow: dict[str, float]
    fast: dict[str, float]
    left: dict[str, float]


class TrainedLeadsCopy(Relation):
    """A trained network is not moved, from step to step, towards a copy of it that rests.

    A target network, or a momentum encoder, is moved a little towards the trained one after each step. With the two
    exchanged in the call, it keeps its first values, and a part of each step is taken back: the network is held where it
    began, and its targets never change.
    Judged are networks, or parts of one, that no optimizer steps, with the names and shapes of trained ones, and that are
    called. It is broken where such a copy does not change, and between a step and the next three and more
    matrices of the trained one come nearer to it, all by one share of the distance, in two steps. Weights that decay, are
    clipped, averaged over ranks or put back do not move so. Weights that are only kept may be meant to be come back to.
    """

    name = "trained-leads-copy"
    needs = frozenset({"step", "forward", "scalar", _SLOW, _LEFT})
    wakes = frozenset({f"scalar {_SLOW}", "forward"})
    repeats = 1
    looks = frozenset({"forward"})
    reads = frozenset({"module", f"scalar {_SLOW}", f"scalar {_FAST}", f"scalar {_LEFT}"})
    severity = "warning"
    priority = 15
    cause = "the trained network and its target, or its average, are exchanged in the call or the loop that moves one towards the other"
    advice = "move the target towards the trained network: target.lerp_(trained, rate), and write to the target alone"

    def __init__(self) -> None:
        self._last: dict[str, _Look] = {}
        self._times: dict[str, int] = {}
        self._used: set[str] = set()  # what was called: weights that are only kept may be a place to come back to

    def kept(self) -> object:
        """Nothing: of windows that it does not read it says nothing."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        for name in ("forward", "module"):
            self._used.update(call.object for call in window.named(name))
        for word, now in _looks(window).items():
            before = self._last.get(word)
            self._last[word] = now
            if before is None or now.step != before.step + 1 or not self._is_used(word):
                continue
            yield self._judge(word, _share(before, now), window)

    def _is_used(self, word: str) -> bool:
        return any(name == word or name.startswith(f"{word}.") for name in self._used)

    def _judge(self, word: str, share: float | None, window: Window) -> Example:
        times = self._times[word] = self._times.get(word, 0) + (share is not None)
        wrong = share is not None and times >= _TIMES
        steps = window.named("step")
        return Example(
            (),
            not wrong,
            {},
            variables=(word,) if wrong else (),
            expected="a copy that is moved towards the trained network",
            seen=f"the trained network is moved by {format_share(share or 0.0, 2)} of the distance, and the copy rests"
            if wrong
            else None,
            call=steps[-1] if steps else None,
            detail=f"The network that {word} is a copy of is moved towards it, and not the other way" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.0, 0.0, 0.0])
        yield _run([0.01, 0.01, 0.01], moving=True)  # two that come nearer to each other
        yield _run([0.01, 0.02, 0.03], alike=False)  # decay, which each matrix tells of another share
        yield _run([1.0, 1.0, 1.0])  # begins again from it, as an inner loop does

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.01, 0.01, 0.01])
        yield _run([0.01, 0.0, 0.01])  # with every other step


def _looks(window: Window) -> dict[str, _Look]:
    """What was told of each copy."""
    found: dict[str, _Look] = {}
    for number in window.numbers:
        if number.name in (_SLOW, _FAST, _LEFT) and number.value is not None:
            word, _, name = number.object.partition("#")
            look = found.setdefault(word, _Look(number.s, {}, {}, {}))
            told = look.slow if number.name == _SLOW else look.fast if number.name == _FAST else look.left
            told[name] = number.value
    return found


def _share(before: _Look, now: _Look) -> float | None:
    """The share of the distance by which a trained network came nearer to a copy that rests; None where it did not."""
    if now.slow != before.slow:
        return None
    shares = []
    for name, slow in now.slow.items():
        fast, left = now.fast.get(name), before.left.get(name)
        if fast is None or left is None or fast == left:
            continue
        if abs(fast - left) > _CLEAR * _ROUNDED * (abs(fast) + abs(left)) and left != slow:
            shares.append((left - fast) / (left - slow))
    if len(shares) < _LEAST:
        return None
    middle = median(shares)
    alike = all(abs(one - middle) <= _ALIKE * middle for one in shares)
    return middle if 0 < middle < 0.5 and alike else None


def _run(nearer: list[float], moving: bool = False, alike: bool = True) -> list[Window]:
    """Steps between which a network comes nearer to its copy by these shares; ``moving`` where the copy moves as well."""
    names = ("0.weight", "2.weight", "4.weight")
    mini = Mini({f"online.{name}": {} for name in names})
    slow = dict(zip(names, (5.0, 7.0, -2.0), strict=True))
    fast = dict(slow)
    windows = []
    for share in [*nearer, 0.0]:
        rows = [
            ("scalar", kind, f"target#{name}", held[name])
            for name in names
            for kind, held in ((_SLOW, slow), (_FAST, fast))
        ]
        fast = {name: value + 0.3 + 0.1 * at for at, (name, value) in enumerate(fast.items())}
        after = [("scalar", _LEFT, f"target#{name}", fast[name]) for name in names]
        used = ("forward target", {"context": "nograd"})
        windows.append(mini.window(used, "backward", *rows, "step optimizer0:SGD", *after))
        fast = {
            name: value - share * (value - slow[name]) * (1 if alike else 1 + at)
            for at, (name, value) in enumerate(fast.items())
        }
        slow = {name: value + 0.01 * moving for name, value in slow.items()}
    return windows
