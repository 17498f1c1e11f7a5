"""What a run went on behind: what was only warned of, and what a program prints again and again and does not end of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from preflight.investigate.case.case import Case, Event, by_file
from preflight.investigate.case.unexplained import any_trouble
from preflight.investigate.course.progress import Progress
from preflight.source.logs.lettered import lettered
from preflight.vocabulary.log import Place, Raised

_WARNED = re.compile(
    r"(?:^|: )(?:\w+\.)*[A-Z]\w*Warning: |^\s*(?:warnings\.)?warn\(|^[^A-Za-z]{0,12}m?[\[(]?WARN(?:ING)?[\])]?[^A-Za-z]"
    r"|^.{0,100}?(?:\s|\||- )WARNING\s{0,3}(?:-|:|\||\])|^\[[\d-]+ [\d:,.]+\] (?:\[[\w/]+\] )?torch\.[\w.]+: \[WARNING\]"
    rf"|{lettered('W')}|^\[W[ \d][^\]]*\.cpp:\d+\]|^INFO:\w[\w.]*:"
)
"""How Python, its loggers and PyTorch's own print a warning or less, and the line of a program that gave it; what it says happened
ended nothing."""
_PYTHON_WARNED = re.compile(r"\.pyx?:\d{1,6}: (?:\w+\.)*[A-Z]\w*Warning: ")
"""How Python prints a warning: with the place that it is given for. One that a program takes for an error is raised, and has a traceback."""
_INFORMED = re.compile(
    r"^.{0,60}?(?:^|[\s|\[(]|- )(?:INFO|DEBUG)(?:\s{0,8}[-:|\])]|\s{1,8}[A-Z]\w+(?:[:-]\d+)+\s)"
    r"|^\W{0,3}(?:INFO|DEBUG)\s|^\W{0,3}\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\dZ]* (?:INFO|DEBUG)\s"
)
"""How loggers print what is no more than a word to who reads along: a program that takes it for an error says so."""
_GIVES_UP = re.compile(
    r"\b(?:abort(?:s|ed|ing)?|giv(?:es?|ing) up|gave up|exiting|quitting|shutting down|fatal|crash(?:ed|es)?)\b"
    r"|\b(?:train(?:ing|er)?|run|job|experiment|script|main)\b(?: \w+)? (?:failed|stopped|died|ended|interrupted)\b"
    r"|\bstopping (?:the )?(?:training|run|job|experiment)\b",
    re.IGNORECASE,
)
"""How a program says that it ends for what went wrong; what it does behind that is only to clear up."""
_NAMES_AN_EXCEPTION = re.compile(r"\b[A-Z]\w*(?:Error|Exception)\b\s*:")
"""How an exception is printed that a script caught as a whole; whether it went on behind it, words of a logger do not tell."""
_OF_A_TREND = ("numerical", "preemption", "other", "none")
"""What a run that went wrong for long may end in as well."""
_DONE_WITHOUT = ("environment", "checkpoint", "data", "usercode", "compile", "none")
"""What a program can do without; a word that it shall end, a number that is none and a connection that is lost stay what they are."""
_PASSES = ("environment", "data", "usercode", "compile", "none")
"""What of it may go wrong to the end, too: without a checkpoint, as where a disk is full, a program runs on and its work is lost."""
_SHARES = re.compile(r"[/\\]multiprocessing[/\\]resource_sharer\.py$")
_WITHOUT_CARDS = re.compile(r"UserWarning: CUDA initialization: ")
"""How PyTorch tells a program that asks whether there are cards that it cannot use them; what goes on does so without."""
_WENT_ON = 12
"""So many lines behind the last warning are of a program that went on, where none of them says that anything failed."""
_ENDS = re.compile(r"[A-Z]\w*(?:Error|Exception)\b|(?i:\bfatal\b|\bcritical\b|\babort)|\berror: ")
"""An exception by its name, and what programs say that give up."""
_CAUGHT = re.compile(r"(?i)\b(?:errors?|failed|failure|exception|skipp(?:ed|ing)|warn(?:ing)?)\b")
"""How a program says that it caught something."""
_HANDLED = re.compile(
    r"(?i:\bfailed|\berror|\bcould not [a-z]+|\bunable to [a-z]+) ?\((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b"
)
"""How a program tells in a line of its own what it caught: by what it did not do, and the exception in brackets."""
_PASSED_OVER = 3
"""What it says so often, of one thing after the other, ended none of them."""
_OF_NOTHING = (
    "ZeroDivisionError", "IndexError", "KeyError", "ValueError", "StopIteration", "StatisticsError", "UnboundLocalError", "AttributeError",
    "AssertionError", "RuntimeError", "TypeError", "NameError", "FileNotFoundError", "OSError", "EOFError",
)  # fmt: skip
"""What is raised as well where nothing came of all that had failed before: the end is then their consequence."""
_OUTLIVED = 2
"""So often a run went on behind the same before."""
_AGAIN_AND_AGAIN = 5
"""So often it did where nothing else shows that it goes on behind the last one, too."""
_MANY = 40
"""Of fewer lines somebody chose each."""


def gives_up(text: str) -> bool:
    """Return whether a program says in a line that it ends."""
    return _GIVES_UP.search(text) is not None


def without_warnings(failing: list[Event], recovered: Sequence[Event]) -> list[Event]:
    """Return what failed without what was only warned of, unless nothing else failed: a program goes on behind a warning.

    Where it went on behind such a warning before, it does so again. How a run winds down is nothing that failed beside it: an
    agent of torchrun tells by a warning that it was told to stop.
    """
    harmless = {event.id for event in recovered if _WARNED.search(event.hit.text)}
    failing = [event for event in failing if event.id not in harmless or not _WARNED.search(event.hit.text)]
    told = [event for event in failing if not _WARNED.search(event.hit.text)]
    return told if any(event.category != "none" and event.role != "teardown" for event in told) else failing


def without_passed_warnings(case: Case, failing: list[Event]) -> list[Event]:
    """Return nothing where all that is left was told as a warning or less and the program went on for long; else what failed.

    Few lines that somebody chose, and those of a program that ends soon after a warning, leave it the only one that tells; but a
    warning that Python itself prints is no way to end, and one that had trained for long went on behind it.
    """
    raised = {one.hit.place for one in case.raised if one.frames}
    if not failing or not all(event.place not in raised and _may_be_passed(event) for event in failing):
        return failing
    if any(ending.code for ending in case.endings) or any_trouble(case.reading.unknown):
        return failing
    on = all(case.lines_behind(event.hit) >= _WENT_ON or _warned_late(case, event) for event in failing)
    return [] if on else failing


def _warned_late(case: Case, event: Event) -> bool:
    """Return whether Python's own machinery of warnings tells of something, and its file many steps before that."""
    if _PYTHON_WARNED.search(event.hit.text) is None:
        return False
    return sum(1 for one in case.steps_in.get(event.hit.file, ()) if one.line < event.hit.line) >= _MANY


def without_words_beside_the_end(case: Case, failing: list[Event], *, ended: bool) -> list[Event]:
    """Return nothing where the run says that it is done, and single lines that only sound of trouble are all that is left."""
    if not ended or any(ending.code for ending in case.endings):
        return failing
    return [] if all(_only_sounds(event) for event in failing) else failing


def _only_sounds(event: Event) -> bool:
    """Return whether a line that nothing took tells of something that a program can lack, and of no exception and no end."""
    told = event.category == "environment" or event.role == "cascade"
    return only_said(event) and told and event.category in _DONE_WITHOUT


def only_said(event: Event) -> bool:
    """Return whether a line that nothing took names no exception and no end."""
    return event.guessed and _ENDS.search(event.hit.text) is None


def _may_be_passed(event: Event) -> bool:
    """Return whether a line only warns or less, and of what a program can do without."""
    text = event.hit.text
    if event.raised is not None and event.raised.frames:
        return False
    if _WARNED.search(text) is None and (_INFORMED.search(text) is None or _ends_in(text)):
        return False
    return event.category in _DONE_WITHOUT or _WITHOUT_CARDS.search(text) is not None


def _ends_in(text: str) -> bool:
    """Return whether a line that is told as information may be the one that a program ends with."""
    return gives_up(text) or _NAMES_AN_EXCEPTION.search(text) is not None


def without_ignored(case: Case, failing: list[Event], *, ended: bool) -> list[Event]:
    """Return what failed without exceptions that Python ignored, unless they are all that a text without a step tells.

    What a thread of Python's printed that serves on is the last of them: where nothing else failed, its partner may have.
    """
    ignored = {one.hit.place for one in case.raised if one.ignored and one.exception != "KeyboardInterrupt"}
    served = {one.hit.place for one in case.raised if _served(one)}
    told = [event for event in failing if event.place not in ignored]
    told = [event for event in told if event.place not in served] or told
    return told if told or ended or case.steps else failing


def _served(raised: Raised) -> bool:
    """Return whether the thread in which Python hands on what processes share printed what it caught, and serves on."""
    first = raised.frames[0] if raised.frames else None
    return first is not None and first.function == "_serve" and _SHARES.search(first.path) is not None


def without_trends(failing: list[Event]) -> list[Event]:
    """Return what failed without what only a course of numbers shows, where an exception ended the run in another way."""
    ended = any(event.role == "root" and not event.guessed and event.category not in _OF_A_TREND for event in failing)
    return [event for event in failing if not event.id.startswith("series.")] if ended else failing


def passed_as_before(progress: Progress, failing: list[Event], recovered: list[Event]) -> list[Event]:
    """Return what failed without what a writer went on behind as often before, and one step is told behind it now: it is mended, too.

    Near the end of a run there are not as many steps behind a line as elsewhere show that it ended nothing.
    """
    counts = Counter((event.id, event.hit.file, event.rank) for event in recovered)
    passed = [
        event
        for event in failing
        if event.category not in _OF_A_TREND
        and counts[event.id, event.hit.file, event.rank] >= _OUTLIVED
        and progress.made_a_step_behind(event)
    ]
    recovered += passed
    out = {id(event) for event in passed}
    return [event for event in failing if id(event) not in out]


def without_repeated(case: Case, failing: list[Event], recovered: Sequence[Event]) -> list[Event]:
    """Return what failed without what a program only printed and went on behind again and again: the log ends there, and not it.

    What is left out is something that a program can do without to its end, and nothing that was raised; no process may have ended
    with an error.
    """
    if any(ending.code for ending in case.endings):
        return failing
    counts = Counter((event.id, event.hit.file, event.rank) for event in recovered if event.raised is None)
    raised = {one.hit.place for one in case.raised if one.exception and one.frames}
    many = {index for index, file in case.files.items() if file.lines >= _MANY}
    return [
        event
        for event in failing
        if event.category not in _PASSES
        or event.raised is not None
        or event.place in raised
        or counts[event.id, event.hit.file, event.rank] < _AGAIN_AND_AGAIN
        or event.hit.file not in many
    ]


def without_caught_alike(case: Case, failing: list[Event]) -> list[Event]:
    """Return nothing where one and the same handler printed all that failed, several times, and the program went on for long behind it.

    Such a line begins with the program's own words, and not with the name of an exception.
    """
    if not failing or any(ending.code for ending in case.endings) or any_trouble(case.reading.unknown):
        return failing
    raised = {one.hit.place for one in case.raised}
    words = {_own_words(event) for event in failing if event.raised is None and event.place not in raised}
    alike = len(words) == 1 and "" not in words and len({event.place for event in failing}) >= _PASSED_OVER
    if not alike or any(event.raised is not None or event.place in raised for event in failing):
        return failing
    last = max(failing, key=lambda event: event.place)
    kinds = all(event.category in (*_DONE_WITHOUT, "oom") and event.role == "root" for event in failing)
    return [] if kinds and case.lines_behind(last.hit) >= _MANY else failing


def _own_words(event: Event) -> str:
    """Return what a program says by itself before it tells what it caught; empty where that is the name of an exception."""
    told = re.match(r"\W*([A-Za-z][\w' ]{7,60}?)[.:] ", event.hit.text)
    return told[1] if told is not None and _ENDS.search(told[1]) is None else ""


def without_passed_over(case: Case, failing: list[Event]) -> list[Event]:
    """Return what failed without lines of what a program caught again and again, where an exception that nobody caught ended it.

    The exception has to be of another category, and of a kind that does not come of nothing having been done.
    """
    raised = {one.hit.place for one in case.raised}
    passed: list[Event] = []
    roots: dict[Place, Event] = {}
    for event in failing:
        if event.role == "root":
            roots.setdefault(event.place, event)
    of_file = by_file(failing, lambda one: one.hit.file)
    for file, told in by_file(case.raised, lambda one: one.hit.file).items():
        last = max(told, key=lambda one: one.hit.line)
        own = roots.get(last.hit.place)
        top = bool(last.frames) and last.frames[0].function == "<module>" and not last.ignored
        if own is None or not top or last.begins is None or last.exception.rpartition(".")[2] in _OF_NOTHING:
            continue
        caught = [
            event
            for event in of_file.get(file, ())
            if event.hit.who == last.hit.who
            and event.hit.line < last.begins
            and event.place not in raised
            and event.role == "root"
            and event.category != own.category
            and event.category in _DONE_WITHOUT
            and _CAUGHT.search(event.hit.text)
        ]
        often = Counter(event.id for event in caught)
        passed += [
            event
            for event in caught
            if often[event.id] >= _PASSED_OVER
            or (last.begins - event.hit.line >= _WENT_ON and _HANDLED.search(event.hit.text))
        ]
    out = {id(event) for event in passed}
    return [event for event in failing if id(event) not in out]


def without_outlived(failing: list[Event], recovered: Sequence[Event]) -> list[Event]:
    """Return what failed without what a program only printed, and went on behind before: something else ended it.

    A program that catches what a step raises prints it again in the next step; the last time, nothing shows that it went on.
    """
    counts = Counter((event.id, event.hit.file) for event in recovered if event.raised is None)
    outlived = {
        id(event)
        for event in failing
        if event.role == "root" and event.raised is None and counts[event.id, event.hit.file] >= _OUTLIVED
    }
    others = any(event.role == "root" and id(event) not in outlived for event in failing)
    return [event for event in failing if id(event) not in outlived] if others else failing
