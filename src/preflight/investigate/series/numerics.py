"""Numbers that are none, and loss scales that fall and do not rise again; no chance is at work here."""

from __future__ import annotations

from typing import Any

from preflight.investigate.series.columns import Track, by_step
from preflight.investigate.series.words import at_step, number, quote_of
from preflight.vocabulary.incident import SeriesFinding

WATCHED = ("loss", "grad_norm", "loss_scale", "lr")
HALVINGS = 4
"""Halvings in a row, without a doubling between them, that are told as a collapse once the scale had settled."""
ONLY_FALLS = 8
"""Halvings, each some lines after the one before, of a scale that never held and still falls at the end."""
AT_REST = 10
"""Lines by which it has to hold longer."""
HELD = 3
"""Lines on one scale that end the search for the first one, in which every step halves it."""


def nonfinite(tracks: list[Track]) -> list[SeriesFinding]:
    """Values that are not finite; an infinite gradient norm that the loss scale skipped is none."""
    import numpy

    found = []
    for name in WATCHED:
        bad: dict[int, tuple[Track, int]] = {}
        count, after = 0, False
        for index, track in enumerate(tracks):
            at, numbers = track.points(name)
            wrong = ~numpy.isfinite(numbers)
            if name == "grad_norm" and len(numbers) and not _serious(track, wrong, numbers):
                continue
            if wrong.any():
                bad[index] = (track, int(at[int(numpy.argmax(wrong))]))
                count += int(wrong.sum())
                after = after or not bool(wrong[-1])
        if not bad:
            continue
        # What comes again and again was not mended.
        values = sum(len(one.points(name).at) for one in tracks)
        often = after and count > max(2, 0.1 * values)
        after = after and not often
        track, first = min(
            bad.values(), key=lambda one: (int(one[0].steps[one[1]]) if one[0].steps[one[1]] >= 0 else 1 << 60, one[1])
        )
        step = int(track.steps[first]) if track.steps[first] >= 0 else None
        ranks = tuple(one.rank for one, _ in bad.values() if one.rank is not None)
        of = len([one for one in tracks if len(one.points(name).at) and one.rank is not None])
        who = (
            f" on rank {ranks[0]}"
            if len(ranks) == 1 and of > 1
            else (f" on {len(ranks)} of {of} ranks" if ranks and of > 1 else "")
        )
        found.append(
            SeriesFinding(
                kind="nonfinite",
                series=name,
                text=f"{name} is {number(track.lines[first].values[name])} {at_step(step, first)}{who}"
                + _what_followed(count, values if often else None, after),
                first_step=step,
                ranks=ranks if len(ranks) < of or of == 1 else (),
                false_alarms=0.0,
                values={"count": count, "recovered": after},
                quote=quote_of(track.lines[first]),
            )
        )
    return found


def _what_followed(count: int, of: int | None, after: bool) -> str:
    """What came after the first value that is no number; ``of``: how many values there are, where it came again and again."""
    if of is not None:
        return f", and so are {count} of {of} values"
    if after:
        return "; later values are finite again"
    return f", and in all of the {count} values since" if count > 1 else ", its last value"


def _serious(track: Track, wrong: Any, numbers: Any) -> bool:
    """A gradient norm that is not finite is a skipped step of mixed precision unless it comes again and again, or stays."""
    import numpy

    count = int(numpy.sum(wrong))
    if not count:
        return False
    run = longest_run(wrong)
    return (
        run >= 8
        or bool(wrong[-1])
        and run >= 2
        or count > 0.2 * len(numbers)
        or not len(track.points("loss_scale").at)
        and count >= 3
    )


def longest_run(wrong: Any) -> int:
    """The most that are true one after the other."""
    import numpy

    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[0], numpy.asarray(wrong, dtype=int), [0]])))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0


def scale_collapse(tracks: list[Track]) -> SeriesFinding | None:
    """The loss scale fell to one or below, or was halved again and again after it had settled."""
    import numpy

    for track in tracks:
        series = by_step(track, "loss_scale")
        numbers = series.numbers
        if len(numbers) < 3 or not numpy.isfinite(numbers).all() or (numbers <= 0).any():
            continue
        highest = float(numbers.max())
        logs = numpy.log2(numbers)
        start = _last_descent(logs)
        fell = float(logs[start] - logs[-1])
        if not (numbers[-1] <= 1.0 < highest and fell >= 3):
            settled = _settled(logs, start) and fell >= HALVINGS
            start = start if settled else _only_falls(logs)
            fell = float(logs[start] - logs[-1])
            if _rests(logs, start) or not settled and fell < ONLY_FALLS:
                continue
        step = series.step(start)
        return SeriesFinding(
            kind="scale-collapse",
            series="loss_scale",
            text=f"the loss scale fell from {number(float(numbers[start]))} to {number(float(numbers[-1]))} since "
            f"{series.place(start)[3:]}: {fell:.0f} halvings without a doubling",
            first_step=step,
            last_step=series.step(len(numbers) - 1),
            ranks=(track.rank,) if track.rank is not None and len(tracks) > 1 else (),
            false_alarms=0.0,
            values={
                "before": float(numbers[start]),
                "after": float(numbers[-1]),
                "halvings": fell,
                "values": len(numbers),
            },
            quote=quote_of(series.lines[start]),
        )
    return None


def _last_descent(logs: Any) -> int:
    """Where the last stretch without a rise begins, at its last highest value."""
    import numpy

    rises = numpy.flatnonzero(numpy.diff(logs) > 0)
    start = int(rises[-1]) + 1 if len(rises) else 0
    while start + 1 < len(logs) and logs[start + 1] == logs[start]:
        start += 1
    return start


def _settled(logs: Any, start: int) -> bool:
    """A new scale is found by halving it from a high value: that is how every run begins, and no collapse."""
    import numpy

    return start >= 20 and bool(numpy.any(numpy.diff(logs[: start + 1]) >= 0))


def _only_falls(logs: Any) -> int:
    """Where a scale begins to fall that never rose, the search for the first one left out; its last line where it rose."""
    import numpy

    last = len(logs) - 1
    moves = numpy.diff(logs)
    if (moves > 0).any():
        return last
    stays = numpy.diff(numpy.concatenate([[-1], numpy.flatnonzero(moves < 0), [last]]))
    held = numpy.flatnonzero(stays >= HELD)
    return int(numpy.sum(stays[: int(held[0]) + 1])) - 1 if len(held) else last


def _rests(logs: Any, start: int) -> bool:
    """Whether a scale that fell from ``start`` on holds now: twice as long as on any of those that it passed."""
    import numpy

    drops = numpy.flatnonzero(numpy.diff(logs[start:]) < 0)
    if not len(drops):
        return True
    passed = int(numpy.diff(drops).max(initial=1))
    return len(logs) - 2 - start - int(drops[-1]) > 2 * passed + AT_REST
