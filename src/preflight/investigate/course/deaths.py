"""Processes that died one after the other in the same file: a script that was started anew, with its output appended.

A traceback that reaches the top of a script ends its process. Where one process writes, what follows is another start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence

from preflight.investigate.case.case import Case, by_file
from preflight.investigate.course.buffered import at_top, of_the_script, waited
from preflight.source.logs.wrappers import WRAPPER
from preflight.vocabulary.log import LogFile, Raised

_MANY = ("elastic.", "network.", "end.child-failed", "end.mpi", "exit.")
"""What is only printed where several processes run: they may die one after the other in the same start."""
_REFUSED = ("usercode.unrecognized-arguments", "environment.script-missing")
"""A parser of arguments that says what is wrong with them ends the program, as does a Python that does not find it."""
_OF_LAUNCHERS = ("elastic.multiprocessing.errors.ChildFailedError", "elastic.multiprocessing.api.SignalException")
"""What torch's launcher raises when it gives up."""
_BANNER = "benign.omp-threads"
_SETS_UP = (_BANNER, "progress.setting-up", "progress.training-start")
"""What a launcher and its workers say as they begin, and at no other time."""
_REQUEUED = "JOB REQUEUE"
"""The reason that Slurm gives where it ends a job that it starts once more."""
_KILLED_AFTER = 60.0
"""So many seconds after a scheduler's word, at the latest, what it ends has been killed; Slurm waits for 30 (KillWait)."""
_STEPS = 2
"""So many steps behind its death are those of another process."""
_NESTED = 3
"""So many bars at most stand in each other: of epochs, of batches, of what is done with one."""
REDRAWN = 6
"""So many lines below what went wrong, bars that are the last that is told are drawn once more as the program ends."""


def cuts_of(whole: Case) -> dict[int, list[int]]:
    """Return for each file that one process wrote the lines behind those with which it died, where it speaks again."""
    several = {event.hit.file for event in whole.events if event.id.startswith(_MANY)}
    ranks = (whole.people.world or 1) > 1 or bool(whole.people.seen)
    if ranks:
        several |= {index for index, file in whole.files.items() if not _of_one_rank(file)}
    several |= {one.file for one in whole.reading.endings if one.file is not None and one.teller != WRAPPER}
    steps = whole.steps_in
    died: dict[int, Raised] = {}
    found: dict[int, list[int]] = {}
    for raised in sorted(whole.reading.raised, key=lambda one: (one.hit.file, one.hit.line)):
        file = raised.hit.file
        if file in several or not at_top(raised) or raised.begins is None:
            continue
        before = died.get(file)
        if (
            before is not None
            and raised.begins > before.hit.line + 1
            and _script(before) == _script(raised)
            # What a rank logged before it died of it is told twice: another start of it would have done something.
            and (not ranks or any(before.hit.line < step.line < raised.begins for step in steps.get(file, ())))
        ):
            found.setdefault(file, []).append(before.hit.line + 1)
        if raised.chained:
            died.pop(file, None)
        else:
            died[file] = raised
    for event in whole.events:
        file, line = event.hit.file, event.hit.line
        if event.id in _REFUSED and file not in several and _goes_on(whole, file, line):
            found.setdefault(file, []).append(line + 1)
    for file, raised in died.items():
        # A bar at zero is drawn once more as a program ends: nothing was done behind it.
        behind = sum(step.line > raised.hit.line and step.step != 0 for step in steps.get(file, ()))
        again = whole.files[file].begun_again if file in whole.files else None
        others = behind >= _STEPS and not _redrawn(whole, file, raised) and (ranks or not waited(whole, raised))
        if others or (again is not None and again > raised.hit.line):
            found.setdefault(file, []).append(raised.hit.line + 1)
    for file, line in _begun_again(whole, several | set(died)).items():
        found.setdefault(file, []).append(line)
    return found


def _begun_again(whole: Case, but: Container[int]) -> dict[int, int]:
    """Return for each file the line with which a program tells its head again, behind all that was raised and caught before it."""
    last: dict[int, int] = {}
    for raised in whole.reading.raised:
        last[raised.hit.file] = max(raised.hit.line, last.get(raised.hit.file, 0))
    starts = {file: whole.files[file].begun_again for file in last if file in whole.files and file not in but}
    return {file: line for file, line in starts.items() if line is not None and line > last[file]}


def cuts_of_launchers(whole: Case) -> dict[int, list[int]]:
    """Return for each file the lines behind those with which a launcher died, where a job is set up, or begins again, after that.

    Its workers had ended before, so that nobody was left who could set anything up. Where several launchers run, the workers of
    the others may.
    """
    if len(whole.people.nodes) > 1:
        return {}
    died = by_file(
        (one for one in whole.reading.raised if one.exception.endswith(_OF_LAUNCHERS)), lambda one: one.hit.file
    )
    told = by_file((event for event in whole.events if event.id in _SETS_UP), lambda one: one.hit.file)
    ended: dict[int, list[int]] = {}
    for ending in whole.reading.endings:
        if ending.file is not None and ending.line is not None:
            ended.setdefault(ending.file, []).append(ending.line)
    found: dict[int, list[int]] = {}
    for file, raised in died.items():
        ends, set_up = sorted(one.hit.line for one in raised), told.get(file, [])
        begun = whole.files[file].begun_again if file in whole.files else None
        if sum(event.id == _BANNER and event.hit.line < ends[0] for event in set_up) > 1:
            continue
        again: dict[int, int] = {}
        lines = [*(event.hit.line for event in set_up), *([begun] if begun is not None else [])]
        for line in sorted((line for line in lines if line > ends[0]), reverse=True):
            again[ends[bisect_left(ends, line) - 1]] = line
        if again:  # below what it raises, a launcher prints how its workers ended
            cuts = (
                max([end, *(one for one in ended.get(file, ()) if end < one < line)]) for end, line in again.items()
            )
            found[file] = sorted(cut + 1 for cut in cuts)
    return found


def cuts_of_requeues(whole: Case) -> dict[int, list[int]]:
    """Return for each file where the next start begins of a job that Slurm ended to start it once more.

    Such a job appends to its file (``--open-mode=append``): what is said there later than it takes to kill it is of the next start.
    """
    found: dict[int, list[int]] = {}
    for event in whole.events:
        file, time = whole.files.get(event.hit.file), event.hit.time
        if (
            event.hit.fields.get("why") != _REQUEUED
            or file is None
            or time is None
            or whole.lines_behind(event.hit) < 1
        ):
            continue
        hits = [one.hit for one in whole.events if one.hit.file == file.index and one.hit.time is not None]
        told = [(hit.line, (hit.time or 0.0) - hit.time_error) for hit in hits]
        told += [(one.line, one.time or 0.0) for one in whole.steps_in.get(file.index, ())]
        told.append((file.lines, file.last_time or 0.0))
        least = time + _KILLED_AFTER
        later = [line for line, at in told if line > event.hit.line and at > least]
        if later:
            found.setdefault(file.index, []).append(min(later))
    return found


def cuts_beside(whole: Case, cuts: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Return the cuts of ranks' own files in which nothing is told but deaths, by those of the files of other ranks.

    Where the others show so many starts, as many deaths in a file are one of each start; one less is one of each but the last, where
    that one came to its end.
    """
    own = {index for index, file in whole.files.items() if _of_one_rank(file)}
    told = [lines for file, lines in cuts.items() if file in own and lines]
    starts = 1 + max((len(lines) for lines in told), default=0)
    if starts == 1:
        return {}
    last = {file: lines[-1] for file, lines in cuts.items() if file in own and len(lines) == starts - 1}
    well = any(
        event.signature is not None
        and event.signature.marks == "end"
        and event.hit.line >= last.get(event.hit.file, 1 << 60)
        for event in whole.events
    )
    died = by_file((one for one in whole.reading.raised if at_top(one) and not one.chained), lambda one: one.hit.file)
    found: dict[int, list[int]] = {}
    for file in own - {file for file, lines in cuts.items() if lines}:
        ends = sorted(one.hit.line for one in died.get(file, ()))
        if whole.steps_in.get(file) or not ends:
            continue
        if len(ends) == starts:
            found[file] = [line + 1 for line in ends[:-1]]
        elif well and len(ends) == starts - 1:
            found[file] = [line + 1 for line in ends]
    return found


def _of_one_rank(file: LogFile) -> bool:
    """Return whether a launcher wrote a file for one rank alone, as its name tells."""
    return file.layout == "rank-files" and file.who.rank is not None


def _goes_on(whole: Case, file: int, line: int) -> bool:
    """Return whether something ran behind a line of a file: another script that died, or steps."""
    if sum(step.line > line for step in whole.steps_in.get(file, ())) >= _STEPS:
        return True
    return any(one.hit.file == file and one.begins is not None and one.begins > line for one in whole.reading.raised)


def _redrawn(whole: Case, file: int, raised: Raised) -> bool:
    """Return whether the few steps behind a death had all been told before: bars, each drawn once more as the program ends."""
    if whole.lines_behind(raised.hit) > REDRAWN:
        return False
    steps = whole.steps_in.get(file, ())
    before = {step.step for step in steps if step.line < raised.hit.line}
    behind = [step.step for step in steps if step.line > raised.hit.line]
    return len(behind) <= _NESTED and before.issuperset(behind)


def _script(raised: Raised) -> str:
    first = of_the_script(raised)
    return first.path.replace("\\", "/").rpartition("/")[2] if first is not None else ""
