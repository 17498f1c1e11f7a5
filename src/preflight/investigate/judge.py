"""The judgement: from a reading to an incident."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import msgspec

from preflight.investigate.beside.pointers import pointers_of
from preflight.investigate.calibration import Ground, calibrated
from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.events import events_of, events_of_excerpts
from preflight.investigate.case.people import People
from preflight.investigate.cause.category import Decided, decide
from preflight.investigate.course.activity import activity_of
from preflight.investigate.course.attempts import attempts_of
from preflight.investigate.course.clocks import clocks_of
from preflight.investigate.course.endings import ending_events
from preflight.investigate.course.interrupted import without_aftermath
from preflight.investigate.course.loss import loss_of
from preflight.investigate.course.outlived import without_outlived, without_trends, without_warnings
from preflight.investigate.course.progress import Progress
from preflight.investigate.course.restarts import telling
from preflight.investigate.course.shown import category_of_phase, left_slower, series_events, shown_by, slow
from preflight.investigate.course.state import (
    has_many_lines,
    headline_of,
    in_words,
    is_quiet,
    next_steps,
    onset_of,
    scope_of,
    state_of,
)
from preflight.investigate.course.thinning import thinned
from preflight.investigate.course.timeline import consequences_of, moments_of, timeline_of
from preflight.investigate.culprit.exit_code import by_themselves, first_seen
from preflight.investigate.culprit.posterior import culprit_of
from preflight.investigate.culprit.vote import Scene
from preflight.investigate.recorder import flight_events, stack_events
from preflight.investigate.remedies import remedies_for
from preflight.investigate.whys import whys_of
from preflight.vocabulary.incident import (
    Culprit,
    FirstFailure,
    Incident,
    NextStep,
    Reason,
    RunState,
    SeriesFinding,
    Suspect,
    UnknownLines,
)
from preflight.vocabulary.log import Reading
from preflight.vocabulary.signature import Category, Signature

_QUIET = 0.9
"""How likely a long log without a word of trouble is that of a run that did not fail: of twelve that nobody had looked
at before they were judged (lots four to seven of ``benchmarks/investigate``), all were."""
_BRIEF = 0.8
"""The same of a few lines: four were met, all of runs that did not fail. For so few it is the share of all answers that are
right, ``PLAIN`` of ``benchmarks/investigate/fit_calibration.py``."""
_CAUGHT: tuple[Category, ...] = ("usercode", "data")
_AGAIN = 5
_OF_THE_STORE = ("network.store-clients-missing",)
"""What the process that keeps the store of a process group says, which is rank 0 (``TCPStore::waitForWorkers`` of torch)."""
_LONG = 200
"""So many kinds of such lines, over so many lines of a file: what one of them names ended nothing."""
_GONE = re.compile(r"^network\..*(?:peer-closed|peer-reset|connection-closed|remote-error)$")
_BY_ITSELF = (4, 5, 6, 7, 8, 11, 14)
"""Signals that end a process for what it does itself; the others are sent to it."""
_LOST = ("cut off", "damaged")
_RECORDED = ("record-collectives",)
"""What is advised where nothing was recorded, and needless where it was."""
_SLOWER = "the steps became slower for good, and the log does not tell whether that is a fault or other work"
_UNTOLD = {
    False: "no line of what was given tells how the run is",
    True: "the steps do not tell whether the card, the settings or the code of the rank makes it slow",
}


def judge(reading: Reading, signatures: Iterable[Signature] | None = None) -> Incident:
    """Return what happened, of everything that was read."""
    if signatures is None:
        from preflight.catalog.signature_files import load_signatures

        signatures = load_signatures()
    table = {signature.id: signature for signature in signatures}
    every = reading.steps
    reading = msgspec.structs.replace(reading, steps=thinned(every))
    people = People(reading)
    clocks = clocks_of(reading, people, table)
    whole = Case(reading, table, people)
    whole.clocks = clocks
    told = (*_without_caught(events_of(whole)), *ending_events(whole))
    whole.events = tuple(sorted((*told, *(() if _anything(told) else events_of_excerpts(whole, told))), key=_order))
    cases = attempts_of(whole)
    if len(cases) == 1:
        cases[0].every_step = every
    judged = [_judge_one(case) for case in cases]
    return _finished(whole, judged, telling(judged))


def _anything(events: Sequence[Event]) -> bool:
    """Return whether anything was recognized that is more than harmless."""
    return any(event.role != "benign" for event in events)


def _order(event: Event) -> tuple[float, int, int]:
    return (event.time if event.time is not None else float("inf"), *event.place)


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, judged."""

    scene: Scene
    culprit: Culprit
    decided: Decided
    recovered: tuple[Event, ...]
    shown: tuple[SeriesFinding, ...]


def _judge_one(case: Case) -> Judged:
    shown = shown_by(case)
    case.events = tuple(
        sorted((*case.events, *series_events(case, shown), *flight_events(case), *stack_events(case)), key=_order)
    )
    progress = Progress(case)
    failing: list[Event] = []
    recovered: list[Event] = []
    for event in case.events:
        if event.role in ("progress", "benign") or (event.signature is not None and event.signature.marks == "end"):
            continue
        mended = progress.recovered(event) and not event.id.startswith(("series.", "flight.", "stacks."))
        (recovered if mended else failing).append(event)
    failing = _with_again(without_aftermath(case, failing), recovered)
    failing = _without_guesses(without_trends(without_outlived(without_warnings(failing, recovered), recovered)))
    scene = Scene(case=case, progress=progress, failing=tuple(_without_teardown_alone(case, failing)))
    culprit = culprit_of(scene)
    return Judged(scene=scene, culprit=culprit, decided=decide(scene, culprit), recovered=tuple(recovered),
                  shown=shown)  # fmt: skip


def _with_again(failing: list[Event], recovered: list[Event]) -> list[Event]:
    """Return what failed with what had seemed to be mended and came again: numbers that are none do not mend themselves.

    Where the steps show that none was a number since, no line that says so was mended, though the run came to its end.
    """
    last = {(event.id, event.rank) for event in failing if event.category == "numerical" and event.role == "root"}
    since = min((event.step or 0 for event in failing if event.id == "series.nonfinite"), default=None)
    back = [
        event
        for event in recovered
        if (event.id, event.rank) in last
        or (since is not None and _says_nan(event) and event.step is not None and event.step >= since)
    ]
    for event in back:
        recovered.remove(event)
    return sorted((*back, *failing), key=_order) if back else failing


def _says_nan(event: Event) -> bool:
    return event.category == "numerical" and event.role == "root" and "nan" in event.id


def _without_guesses(failing: list[Event]) -> list[Event]:
    """Return what failed without lines that nothing took, unless they are all that names a cause."""
    sure = [event for event in failing if not event.guessed]
    if any(event.role == "root" and not (_only_ended(event) and event.category == "other") for event in sure):
        return sure
    return failing


def _without_caught(events: Sequence[Event]) -> list[Event]:
    """Return the events without lines that name an exception again and again over a long part of a file: they were caught."""
    lines: dict[int, list[int]] = {}
    for event in events:
        if event.guessed and event.category in _CAUGHT:
            lines.setdefault(event.hit.file, []).append(event.hit.line)
    caught = {file for file, told in lines.items() if len(told) >= _AGAIN and max(told) - min(told) >= _LONG}
    return [event for event in events if not (event.guessed and event.category in _CAUGHT and event.hit.file in caught)]


def _without_teardown_alone(case: Case, failing: list[Event]) -> list[Event]:
    """Return nothing where all that is left is how a run winds down after it has done what it should."""
    deciding = [event for event in failing if event.role != "teardown"]
    bad = [ending for ending in case.endings if ending.code not in (0, None)]
    return failing if deciding or bad or any(event.category != "none" for event in failing) else []


def _ground(decided: Decided, *, failed: bool, healthy: bool, quiet: bool, many: bool) -> tuple[Ground, float]:
    """Return what the answer rests on, and its probability before calibration."""
    if quiet:
        return ("quiet", _QUIET) if many else ("nothing", _BRIEF)
    if not failed:
        return ("healthy", 0.95) if healthy else ("nothing", 0.0)
    if decided.leading is None:
        return "nothing", decided.probability
    if _anybody(decided.leading):
        return "signal", decided.probability
    if _only_ended(decided.leading):
        return "ending", decided.probability
    if not decided.leading.specific:
        return "exception", decided.probability
    return ("symptom" if decided.inferred else "signature"), decided.probability


def _only_ended(event: Event) -> bool:
    """Return whether an event tells nothing but how a process ended."""
    return event.id.startswith(("exit.", "end.", "elastic."))


def _anybody(event: Event) -> bool:
    """Return whether all that is known is a signal that anybody can have sent."""
    causes = event.signature.causes if event.signature is not None else ()
    return event.category == "oom" and any(cause.id == "signal-from-outside" for cause in causes)


def _finished(whole: Case, judged: Sequence[Judged], last: Judged) -> Incident:
    """Return the incident of a run from its attempts."""
    from preflight.investigate.course.attempts import attempt_of

    scene, decided, culprit = last.scene, last.decided, last.culprit
    failed = bool(scene.failing)
    state = state_of(scene) if failed else _calm_state(last)
    lagging = slow(last.shown) if not failed and state == "slow" else None
    quiet = not failed and state == "unknown" and is_quiet(scene)
    known = scene.case.people
    category: Category = decided.category if failed else _calm_category(lagging, state, quiet=quiet)
    cut = _cut(scene.case) if state == "running" and not failed else None
    if cut is not None:
        state, category = "unknown", "cannot-tell"
    healthy = not failed and (state in ("running", "ended") or category == "none") and not quiet
    incident = Incident(
        state=state,
        onset=onset_of(scene),
        scope=scope_of(scene, culprit) if failed else "rank" if lagging is not None and lagging.ranks else None,
        category=category,
        root_category=decided.root if failed else None,
        symptom_category=decided.symptom if failed else None,
        signature=decided.leading.id if failed and decided.leading is not None else None,
        confidence=calibrated(*_ground(decided, failed=failed, quiet=quiet, many=has_many_lines(scene), healthy=healthy or (lagging is not None and category != "cannot-tell"))),
        headline=lagging.text if lagging is not None else _up_to(scene) if cut else headline_of(scene, culprit, decided, state),
        culprit=culprit if failed else _slow_ones(lagging, known),
        first_failure=_first(scene, decided, culprit) if failed else None,
        timeline=timeline_of(whole, [one.scene for one in judged]),
        hypotheses=in_words(decided.hypotheses) if failed else (),
        consequences=consequences_of(scene, culprit, decided),
        recovered=moments_of(scene.case, last.recovered),
        activity=activity_of(whole),
        attempts=tuple(
            attempt_of(one.scene.case.number, one.scene, one.culprit, one.decided)
            for one in judged
        ),
        clocks=tuple(sorted(whole.clocks.values(), key=lambda clock: clock.node)),
        unknown=tuple(
            UnknownLines(template=one.template, count=one.count, ranks=one.ranks, quote=whole.quote(one.first), warning=one.warning)
            for one in sorted(whole.reading.unknown, key=lambda one: one.warning)
        ),
        loss=loss_of([one.scene for one in judged], known.world),
        world_size=known.world,
        ranks_seen=tuple(sorted(known.seen)),
        nodes_seen=tuple(sorted(known.nodes)),
        reason=cut or _reason(failed, healthy, lagging, last.shown),
    )  # fmt: skip
    if failed:
        signature = decided.leading.signature if decided.leading is not None else None
        caught = pointers_of(signature, incident)
        incident = msgspec.structs.replace(
            incident,
            remedies=remedies_for(incident, without=_RECORDED if scene.case.reading.flights else ()),
            caught_by=caught,
        )
    return msgspec.structs.replace(
        incident,
        series=last.shown,
        five_whys=whys_of(scene, culprit, decided, state) if failed else (),
        next=_measured(lagging) if lagging is not None else next_steps(scene, culprit, decided, state),
    )


def _cut(case: Case) -> str | None:
    """Return what cannot be known because a packed log is damaged or ends early; None where all of them are whole."""
    lost = [
        file.path
        for file in case.reading.files
        if file.kind == "text" and any(word in (file.problem or "") for word in _LOST)
    ]
    if not lost:
        return None
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return f"nothing failed as far as {lost[0]}{more} could be read; what came behind the damage is not known"


def _up_to(scene: Scene) -> str:
    """Return in one line what is known of a run whose logs cannot be read to their end."""
    step = scene.progress.last_step
    where = f"up to step {step:,}" if step is not None else "so far"
    return f"nothing failed {where}, and what comes after it cannot be read"


def _reason(failed: bool, healthy: bool, lagging: SeriesFinding | None, shown: Sequence[SeriesFinding]) -> str | None:
    """Return why nothing can be said, in words; None where something is."""
    if failed:
        return None
    if lagging is not None and not lagging.ranks and category_of_phase(lagging) is None and left_slower(shown):
        return _SLOWER
    return None if healthy else _UNTOLD[lagging is not None]


def _calm_state(last: Judged) -> RunState:
    """Return the state of a run in whose lines nothing failed: its steps may tell more."""
    state = state_of(last.scene)
    if state not in ("running", "ended"):
        return state
    stopped = any(one.kind == "stopped" and not one.ranks for one in last.shown)
    if state == "running" and stopped and not _evaluated_since(last.scene):
        return "hung"
    return "slow" if slow(last.shown) is not None else state


def _evaluated_since(scene: Scene) -> bool:
    """Return whether scores or results were told after the last step: the training was over, and nothing hangs."""
    places = [(step.file, step.line) for step in scene.case.steps]
    last = max((line for file, line in places if file == places[-1][0]), default=0) if places else 0
    return any(
        event.id in ("progress.evaluation", "progress.results-saved") and event.place > (places[-1][0], last)
        for event in scene.case.events
        if places
    )


def _calm_category(lagging: SeriesFinding | None, state: RunState, *, quiet: bool) -> Category:
    """Return the category of a run in whose lines nothing failed; a rank that lags behind has a cause, and computing has many."""
    if quiet:
        return "none"
    if state in ("hung", "unknown"):
        return "cannot-tell"
    if lagging is None:
        return "none"
    return category_of_phase(lagging) or ("cannot-tell" if lagging.ranks else "none")


def _measured(lagging: SeriesFinding) -> tuple[NextStep, ...]:
    """Return what to measure where steps are slow."""
    probe = {"data": "loading", "compute": "compute", "communication": "collectives", "checkpoint": "storage"}.get(
        lagging.phase or "", "compute"
    )
    return (
        NextStep(text="measure this part alone, on every rank, and compare the ranks", kind="observe",
                 command=f"preflight investigate probe {probe}", tells=("slow-rank",)),
        NextStep(text="compare what the ranks run on", kind="observe", command="preflight investigate doctor --save DIR",
                 tells=("environment-diff",)),
    )  # fmt: skip


def _slow_ones(lagging: SeriesFinding | None, people: People) -> Culprit:
    """Return the ranks that make a run slow, as sure as the test that found them is seldom wrong."""
    if lagging is None or not lagging.ranks:
        return Culprit(reason="nothing failed")
    sure = 1.0 - max(lagging.false_alarms or 0.0, 0.02)
    quotes = (lagging.quote,) if lagging.quote is not None else ()
    nodes = tuple(dict.fromkeys(people.node_of[rank] for rank in lagging.ranks if rank in people.node_of))
    reasons = (Reason(text=lagging.text, weight=math.log(sure / (1 - sure)), quotes=quotes),)
    suspects = tuple(
        Suspect(rank=rank, node=people.node_of.get(rank), probability=sure, reasons=reasons) for rank in lagging.ranks
    )
    return Culprit(ranks=lagging.ranks, nodes=nodes, confidence=sure, reasons=reasons, suspects=suspects)


def _first(scene: Scene, decided: Decided, culprit: Culprit) -> FirstFailure | None:
    event = decided.leading
    if event is None:
        return None
    rank = event.rank
    if rank is None:
        beside = (one.rank for one in scene.failing if one.place == event.place and one.rank is not None)
        rank = next(beside, None)
    if rank is None:  # a scheduler's line of the whole job: another one tells of whom it holds
        alike = (one.rank for one in scene.failing if one.category == event.category and one.rank in culprit.ranks)
        told = {one.rank for one in scene.failing if one.rank is not None}
        rank = next(alike, None if len(told) != 1 else next(iter(told)))
    ended = {
        scene.case.people.rank_of(one.about, one.file)
        for one in scene.case.endings
        if one.code and (one.code > 0 or -one.code in _BY_ITSELF)
    }
    if rank is not None and rank not in ended:  # of those that said the same, the one that ended by itself
        rank = next((one.rank for one in scene.failing if one.id == event.id and one.rank in ended - {None}), rank)
    if rank is None:  # printed again without a label: the first one that said it with one
        rank = next((one.rank for one in scene.failing if one.id == event.id and one.rank is not None), None)
    if _GONE.search(event.id) and len(culprit.ranks) == 1 and not scene.waited:
        rank = culprit.ranks[0]  # the line tells of whoever is at the other end
    if rank is None:  # no line of it is there but that of its scheduler
        rank = next((one for one in by_themselves(scene) if one in culprit.ranks), None)
    if rank is None and event.id in _OF_THE_STORE:
        rank = 0
    if rank is None and not culprit.ranks:  # nobody is told from the others: one of those that ended with an error
        rank = next(iter(first_seen(scene)), next(iter(by_themselves(scene)), None))
    line = next((one for one in scene.failing if one.id == event.id and one.rank == rank), event)  # its own line
    return FirstFailure(rank=rank, node=line.node, time=line.time, path=scene.case.path(line.hit.file),
                        line=line.hit.line, text=line.hit.text, step=line.step)  # fmt: skip
