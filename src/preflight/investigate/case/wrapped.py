"""Ends that whatever ran a program told behind its output, where something else ran after them, or it again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from preflight.source.logs.wrappers import WRAPPER
from preflight.vocabulary.log import Ending, Reading, StepLine

_MUCH = 40
"""So many lines are more than what a tracker and a batch system print as a job ends, if steps stand behind them."""
_LONG = 200
"""So many are more than what a service cleans up, where no steps are counted at all."""
_STEPS = 10
"""So many steps behind an end are of what ran on, though few lines are behind it."""
_UNDER_WAY = 3
"""Fewer may be those that others had begun, each of whom tells of them."""
_AHEAD = 1000
"""Of so many lines of steps behind an end they are counted."""
_OFTEN = 3
"""So often a program counted on behind the same before: it tells so of others that it starts."""
_Steps = Mapping[int, Sequence[StepLine]]


def without_passed(endings: Sequence[Ending], reading: Reading) -> tuple[Ending, ...]:
    """Return the ends without those of failed programs that wrappers told, and behind which something else was done in the file.

    What cleans up behind a failure writes many lines as well: where steps are counted, they tell whether anything was done.
    """
    told = [one for one in endings if one.teller == WRAPPER and one.code and one.file is not None]
    if not told:
        return tuple(endings)
    steps: dict[int, list[StepLine]] = {}
    for step in reading.steps:
        steps.setdefault(step.file, []).append(step)
    for of_file in steps.values():
        of_file.sort(key=lambda one: one.line)
    lengths = {file.index: file.lines for file in reading.files}
    passed = {id(one) for one in told if _passed(one, steps, lengths)} | _as_before(told, steps)
    return tuple(one for one in endings if id(one) not in passed)


def _passed(one: Ending, steps: _Steps, lengths: Mapping[int, int]) -> bool:
    file = one.file or 0
    behind = lengths.get(file, 0) - (one.line or 0)
    if file not in steps:
        return behind >= _LONG
    at = _steps_before(one, steps)
    done = len({step.step for step in steps[file][at : at + _AHEAD]})
    return done >= _STEPS or (done >= _UNDER_WAY and behind >= _MUCH)


def _as_before(told: Sequence[Ending], steps: _Steps) -> set[int]:
    """Return the ends behind the like of which a program counted on again and again: one that was started anew counts anew."""
    counted_on: dict[tuple[int, int], set[int]] = {}
    for one in told:
        of_file, at = steps.get(one.file or 0, ()), _steps_before(one, steps)
        before, behind = (of_file[at - 1].step, of_file[at].step) if 0 < at < len(of_file) else (None, None)
        if before is not None and behind is not None and before < behind:
            counted_on.setdefault((one.file or 0, one.code or 0), set()).add(at)
    often = {kind: sorted(places)[_OFTEN - 1] for kind, places in counted_on.items() if len(places) >= _OFTEN}
    return {
        id(one) for one in told if _steps_before(one, steps) > often.get((one.file or 0, one.code or 0), len(steps.get(one.file or 0, ())))
    }  # fmt: skip


def _steps_before(one: Ending, steps: _Steps) -> int:
    return bisect_right(steps.get(one.file or 0, ()), one.line or 0, key=lambda step: step.line)
