"""Steps that no longer come."""

from __future__ import annotations

from itertools import pairwise

from preflight.investigate.series.columns import Track
from preflight.investigate.series.words import quote_of
from preflight.vocabulary.incident import SeriesFinding
from preflight.vocabulary.quantity import format_duration

FALSE_ALARMS = 0.003
_HALF_A_DAY = 43200.0
TIMES = 10.0
"""A pause of so many times the longest one before it means that the steps stopped."""


def stopped(tracks: list[Track], until: float | None) -> list[SeriesFinding]:
    """Runs that printed no further step for long before ``until``, and ranks that stopped steps before the others."""
    found = []
    silent = _silent(tracks, until) if until is not None else None
    if silent is not None:
        found.append(silent)
    repeated = _repeated(tracks)
    if repeated is not None:
        found.append(repeated)
    return [*found, *_behind(tracks)]


def _silent(tracks: list[Track], until: float) -> SeriesFinding | None:
    """Nobody has printed a step for much longer than ever before."""
    import numpy

    best = None
    for track in tracks:
        times = track.times[numpy.isfinite(track.times)]
        if len(times) < 5:
            continue
        pauses = numpy.diff(times)
        if float(pauses.min(initial=0.0)) < -_HALF_A_DAY:
            return None  # the lines bear no date, and midnight passed: what came last is not what bears the latest time
        longest = float(pauses.max(initial=0.0))
        waited = until - float(times[-1])
        if longest <= 0 or waited <= max(TIMES * longest, 60.0):
            return None
        if best is None or waited < best[0]:
            best = (waited, longest, float(numpy.median(pauses)), track)
    if best is None:
        return None
    waited, longest, typical, track = best
    at = len(track.lines) - 1
    step = int(track.steps[at]) if track.steps[at] >= 0 else None
    return SeriesFinding(
        kind="stopped",
        series="step",
        text=f"no step for {format_duration(waited)} after {'step ' + format(step, ',') if step is not None else 'the last one'}, "
        f"where the longest pause before was {format_duration(longest)}",
        first_step=step,
        last_step=step,
        false_alarms=FALSE_ALARMS,
        values={"waited": waited, "longest": longest, "typical": typical},
        quote=quote_of(track.lines[at]),
    )


def _repeated(tracks: list[Track]) -> SeriesFinding | None:
    """Lines keep coming, but their step number stays where it is while it used to move on."""
    import numpy

    for track in tracks:
        steps = track.steps[track.steps >= 0]
        if len(steps) < 20 or _at_the_end_of_a_bar(track):
            continue
        same = int((steps[::-1] == steps[-1]).argmin() or len(steps))
        moves = numpy.flatnonzero(numpy.diff(steps) != 0)
        before = int(numpy.diff(numpy.concatenate([[-1], moves])).max(initial=1)) if len(moves) else 1
        if len(moves) >= 5 and same >= max(20, int(TIMES) * before):
            at = len(track.lines) - same
            return SeriesFinding(
                kind="stopped",
                series="step",
                text=f"the last {same:,} lines all say step {int(steps[-1]):,}; before, a step had at most {before}",
                first_step=int(steps[-1]),
                last_step=int(steps[-1]),
                ranks=(track.rank,) if track.rank is not None else (),
                false_alarms=FALSE_ALARMS,
                values={"lines": same, "before": before},
                quote=quote_of(track.lines[max(0, at)]),
            )
    return None


def _at_the_end_of_a_bar(track: Track) -> bool:
    """Whether the last step is the highest of a counter that began again before: a bar that is full is drawn once more."""
    printed = [line.step for line in track.lines if line.step is not None]
    began_again = any(after < before for before, after in pairwise(printed))
    return began_again and printed[-1] == max(printed)


def _behind(tracks: list[Track]) -> list[SeriesFinding]:
    """Ranks whose last step is more than a few before that of the others."""
    import numpy

    ranked = [track for track in tracks if track.rank is not None and (track.steps >= 0).sum() >= 3]
    if len(ranked) < 2:
        return []
    last = numpy.array([int(track.steps[track.steps >= 0][-1]) for track in ranked])
    # Some ranks print every step and some every tenth: the distance is counted in the steps between a rank's own lines.
    own = numpy.array([max(1, int(numpy.abs(numpy.diff(track.steps[track.steps >= 0])).max())) for track in ranked])
    ahead = int(last.max())
    late = [i for i in range(len(ranked)) if ahead - int(last[i]) > 2 * int(own[i])]
    if not late or len(late) > len(ranked) // 2:
        return []
    return [
        SeriesFinding(
            kind="stopped",
            series="step",
            text=f"the last step of rank {ranked[i].rank} is {int(last[i]):,}, where others came to {ahead:,}",
            first_step=int(last[i]),
            last_step=int(last[i]),
            ranks=(ranked[i].rank or 0,),
            false_alarms=0.0,
            values={"last": int(last[i]), "others": ahead},
            quote=quote_of(ranked[i].lines[-1]),
        )
        for i in late
    ]
