"""An average of weights keeps most of what it was."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.kept import ALIKE, CLEAR, FAST, NONE, ROUNDED, SLOW, Look, kept_of, share_kept
from preflight.monitor.window import Window
from preflight.vocabulary.quantity import format_share

_MOST = 0.1
"""The share of its past that an average keeps in a step, below which it is none."""
_BEYOND = 1e-3
"""How much more than all of its past says that it moves away from what it should follow."""
_INTERVALS = 2
_MOST_RESTS = 2
"""Steps in a row after which an average is as it was, between two that move it."""
_APART = 1e6
"""Of the squares of the sums, how small a share may still tell a copy from what it follows: sums are rounded much less."""
_FITTED = 3
"""Matrices that tell two weights of an average, and whether there are two."""
_LEAST = 0.01
"""The least weight that is told from none at all, as of a copy that is made anew with each step and scaled."""
_OFF = 0.05
"""How far from one two weights add up to, so that no rounding and no decay of the copy itself explains it."""


class AveragesKeepTheirPast(Relation):
    """What is moved after trained weights, a little with each step, keeps more than a tenth of what it was, and comes nearer.

    Target networks, teachers and averages are made with a decay near 1, or a rate near 0. With the two exchanged, the
    copy is all but the trained network itself after each step: the targets move with what learns from them. With the sign
    exchanged, it moves away from what it should follow, faster and faster.
    Judged are networks that no optimizer holds, and tables of tensors that the program keeps beside a network (a dictionary
    by name, a list in order), whose matrices have the shapes of trained ones. An average is linear: with each step the sum
    over each of its matrices keeps the same share of its distance from the sum over the trained one. Where these shares are
    the same to a few hundredths for all matrices, in two steps in a row, they are its decay; what moves otherwise is no
    average, one whose share grows from step to step is warmed up, and a share of nought is a copy. A step or two between
    them after which the copy is as it was, as with policies that are delayed, do not count; what is moved more seldom may
    be moved far.
    Where the shares are not the same, each matrix may be a weight times what it was and another times what it follows: where
    two weights explain three matrices to the last digits, twice in a row with the same result, both lie between zero and
    one, and they do not add up to one, the copy shrinks or grows with each step. A sum, to which the trained weights are
    added as they are, is divided where it is used, and is not judged.
    """

    name = "averages-keep-their-past"
    needs = frozenset({"step", "scalar", SLOW})
    wakes = frozenset({f"scalar {SLOW}"})
    severity = "warning"
    priority = 16
    cause = "the decay of a moving average, or the rate of a target network, is given the wrong way round or with the wrong sign"
    advice = "keep the average times the decay (0.99, 0.999), and add the new weights times what is left of 1"

    def __init__(self) -> None:
        self._last: dict[str, Look] = {}
        self._shares: dict[str, list[float]] = {}  # by average, the share kept in each of the last intervals
        self._sums: dict[str, list[float]] = {}  # by average, what its two weights added up to in the last intervals
        self._rests: dict[str, int] = {}  # by average, the steps in a row after which it was as before

    def see(self, window: Window) -> Iterator[Example]:
        for word, now in kept_of(window).items():
            before = self._last.get(word)
            self._last[word] = now
            if before is None or now.step != before.step + 1:
                self._shares.pop(word, None)
                self._sums.pop(word, None)
                continue
            rests = self._rests[word] = self._rests.get(word, 0) + 1 if now.slow == before.slow else 0
            if not 0 < rests <= _MOST_RESTS:
                share = share_kept(before, now)
                # With two weights, a copy that grew from the same seems to leave.
                plain = share is not None and share <= 1
                uneven = self._uneven(word, None if plain else _weights(before, now), window)
                yield uneven or self._judge(word, share, window)

    def _uneven(self, word: str, weights: tuple[float, float] | None, window: Window) -> Example | None:
        """What is wrong with an average whose weights, in two intervals in a row, do not add up to one."""
        known = self._sums.setdefault(word, [])
        if weights is None or not all(_LEAST < one < 1 - _BEYOND for one in weights) or abs(sum(weights) - 1) < _OFF:
            known.clear()
            return None
        if known and abs(sum(weights) - known[-1]) > ALIKE * abs(sum(weights) - 1):
            known.clear()
        known.append(sum(weights))
        if len(known) < _INTERVALS:
            return None
        steps = window.named("step")
        return Example(
            (),
            False,
            {},
            variables=(word,),
            expected="an average whose weights add up to 1",
            seen=f"{weights[0]:.3g} of itself and {weights[1]:.3g} of what it follows",
            call=steps[-1] if steps else None,
            detail=f"The weights that {word} is averaged with do not add up to 1",
        )

    def _judge(self, word: str, share: float | None, window: Window) -> Example:
        known = self._shares.setdefault(word, [])
        if share is None or not (NONE < share < _MOST or share > 1 + _BEYOND):
            known.clear()
        else:
            if known and abs(share - known[-1]) > ALIKE * min(share, abs(1 - share)):
                known.clear()
            known.append(share)
        wrong = len(known) >= _INTERVALS
        away = wrong and known[-1] > 1
        steps = window.named("step")
        return Example(
            (),
            not wrong,
            {},
            variables=(word,) if wrong else (),
            expected="an average that keeps most of what it was, and comes nearer to what it follows",
            seen=(
                f"its distance grows {known[-1]:.4g} times"
                if away
                else f"it keeps {format_share(known[-1], 1)} of itself"
            )
            + " in each step"
            if wrong
            else None,
            call=steps[-1] if steps else None,
            detail=(
                f"{word} moves away from the trained network that it should follow"
                if away
                else f"{word} follows a trained network so closely that it averages nothing"
            )
            if wrong
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.99, 0.99, 0.99])
        yield _run([0.5, 0.5, 0.5])
        yield _run([0.0, 0.0, 0.0])  # copied
        yield _run([2e-5, 2e-5, 2e-5])  # copied, up to rounding
        yield _run([1.0, 1.0, 1.0])  # left as it is
        yield _run([0.004, 0.04, 0.09])  # warmed up
        yield _run([0.05, 0.05, 0.05], turned=0.02)  # no average: its matrices do not move alike
        yield _run([0.05, 1.0, 1.0, 1.0, 0.05])  # seldom
        yield _run([0.9, 0.9, 0.9], added=1.0)  # a sum, divided where it is used
        yield _run([0.9, 0.9, 0.9], added=0.5, turned=0.02)  # not the same weights for all of its matrices
        yield _run([0.9, 0.9, 0.9], added=0.1)
        yield _run([0.0, 0.0, 0.0], added=0.5)  # made anew and scaled
        yield _run([0.995, 0.995, 0.995], added=0.005, drift=0.04)  # begun as a copy
        yield _run([1.0, 1.0, 1.0], added=1.0, drift=0.04)  # a sum of copies

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.01, 0.01, 0.01])
        yield _run([1.01, 1.01, 1.01])
        yield _run([0.01, 1.0, 0.01, 1.0])
        yield _run([0.9, 0.9, 0.9], added=0.9)
        yield _run([0.1, 0.1, 0.1], added=0.1)
        yield _run([0.995, 0.995, 0.995], added=0.995, drift=0.04)  # begun as a copy


def _weights(before: Look, now: Look) -> tuple[float, float] | None:
    """The weights of what a copy was and of what it follows that explain each of its matrices; None where none do."""
    rows = [
        (before.slow[name], now.fast[name], slow)
        for name, slow in now.slow.items()
        if name in before.slow and name in now.fast
    ]
    if len(rows) < _FITTED:
        return None
    old, both, new = (
        sum(a * b for a, b in pairs)
        for pairs in ([(x, x) for x, _, _ in rows], [(x, y) for x, y, _ in rows], [(y, y) for _, y, _ in rows])
    )
    apart = old * new - both * both
    if apart <= old * new / _APART:  # a copy all but the same as what it follows: any two weights would do
        return None
    left, right = sum(x * z for x, _, z in rows), sum(y * z for _, y, z in rows)
    kept, taken = (left * new - right * both) / apart, (right * old - left * both) / apart
    exact = all(abs(kept * x + taken * y - z) <= CLEAR * ROUNDED * (abs(x) + abs(y)) for x, y, z in rows)
    return (kept, taken) if exact else None


def _run(decays: list[float], turned: float = 0.0, added: float | None = None, drift: float = 0.0) -> list[Window]:
    """Steps in which a copy keeps these shares of itself, each matrix this much more than the one before.

    ``added`` is the weight of what it follows, which is else what is left of 1, as it is for two matrices only. With a
    ``drift`` it begins as a copy, and what it follows moves by as much in a step, each matrix by a share more.
    """
    names = ("0.weight", "2.weight") if added is None else ("0.weight", "2.weight", "4.weight", "6.weight")
    mini = Mini({f"online.{name}": {} for name in names})
    slow = dict(zip(names, (5.0, 7.0, -2.0, 0.5), strict=False))
    if drift:
        slow = {name: 5.5 + 2.0 * at for at, name in enumerate(names)}
    windows = []
    for step, decay in enumerate([0.0, *decays]):
        moved = {name: step * (drift * (1 + at) or 0.1) for at, name in enumerate(names)}
        fast = {name: 5.5 + 2.0 * at + moved[name] for at, name in enumerate(names)}
        for at, name in enumerate(names):
            kept = decay + turned * at
            taken = 1 - kept if added is None else added
            slow[name] = kept * slow[name] + taken * fast[name] if step else slow[name]
        rows = [
            ("scalar", kind, f"shadow#{name}", held[name])
            for name in names
            for kind, held in ((SLOW, slow), (FAST, fast))
        ]
        windows.append(mini.window("backward", *rows, "step optimizer0:SGD"))
    return windows
