"""The judgement: from a reading to an incident."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from preflight.investigate.beside.pointers import pointers_of
from preflight.investigate.calibration import Ground, calibrated
from preflight.investigate.case.case import Case, Event
from preflight.investigate.case.events import events_of, events_of_excerpts, order
from preflight.investigate.case.people import People
from preflight.investigate.case.unexplained import unexplained
from preflight.investigate.cause.category import Decided, decide
from preflight.investigate.course.activity import activity_of
from preflight.investigate.course.attempts import attempts_of
from preflight.investigate.course.calm import (
    calm_category,
    calm_state,
    cut_short,
    measured,
    slow_ones,
    up_to,
    why_nothing,
)
from preflight.investigate.course.cells import without_earlier_cells
from preflight.investigate.course.clocks import clocks_of
from preflight.investigate.course.done_before import without_what_is_behind
from preflight.investigate.course.ended_well import without_what_ended_well
from preflight.investigate.course.endings import ending_events
from preflight.investigate.course.interrupted import without_cancelled_steps
from preflight.investigate.course.loss import loss_of
from preflight.investigate.course.of_nodes import without_words_of_nodes
from preflight.investigate.course.outlived import (
    passed_as_before,
    without_caught_alike,
    without_ignored,
    without_outlived,
    without_passed_over,
    without_passed_warnings,
    without_repeated,
    without_trends,
    without_warnings,
    without_words_beside_the_end,
)
from preflight.investigate.course.progress import Progress
from preflight.investigate.course.remaining import (
    only_ended,
    with_again,
    without_caught,
    without_guesses,
    without_teardown_alone,
)
from preflight.investigate.course.restarts import telling
from preflight.investigate.course.served import without_failed_requests
from preflight.investigate.course.shown import series_events, shown_by, slow, slow_ranks
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
from preflight.investigate.course.went_by import without_went_by, without_what_it_goes_on_behind
from preflight.investigate.culprit.posterior import culprit_of
from preflight.investigate.culprit.vote import Scene
from preflight.investigate.first_failure import first_failure_of
from preflight.investigate.recorder import flight_events, stack_events
from preflight.investigate.remedies import remedies_for
from preflight.investigate.whys import whys_of
from preflight.vocabulary.incident import Culprit, Incident, SeriesFinding, UnknownLines
from preflight.vocabulary.log import Reading
from preflight.vocabulary.signature import Category, Signature

_QUIET = 0.9
"""How likely a long log without a word of trouble is that of a run that did not fail: of twelve that nobody had looked
at before they were judged (lots four to seven of ``benchmarks/investigate``), all were."""
_BRIEF = 0.8
"""The same of a few lines: four were met, all of runs that did not fail. For so few it is the share of all answers that are
right, ``PLAIN`` of ``benchmarks/investigate/fit_calibration.py``."""
_RECORDED = ("record-collectives",)
"""What is advised where nothing was recorded, and needless where it was."""


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
    told = (*without_caught(events_of(whole)), *ending_events(whole))
    whole.events = tuple(sorted((*told, *(() if _anything(told) else events_of_excerpts(whole, told))), key=order))
    cases = attempts_of(whole)
    if len(cases) == 1:
        cases[0].every_step = every
    judged = [_judge_one(case) for case in cases]
    return _finished(whole, judged, telling(judged))


def _anything(events: Sequence[Event]) -> bool:
    """Return whether anything was recognized that is more than harmless."""
    return any(event.role != "benign" for event in events)


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
        sorted((*case.events, *series_events(case, shown), *flight_events(case), *stack_events(case)), key=order)
    )
    progress = Progress(case)
    failing: list[Event] = []
    recovered: list[Event] = []
    for event in case.events:
        if event.role in ("progress", "benign") or (event.signature is not None and event.signature.marks == "end"):
            continue
        mended = progress.recovered(event) and not event.id.startswith(("series.", "flight.", "stacks."))
        (recovered if mended else failing).append(event)
    failing = without_failed_requests(case, without_earlier_cells(case, failing, recovered), recovered)
    failing = with_again(without_cancelled_steps(case, passed_as_before(progress, failing, recovered)), recovered)
    failing = without_guesses(without_trends(without_outlived(without_warnings(failing, recovered), recovered)))
    failing = without_ignored(case, failing, ended=progress.ended)
    failing = without_passed_over(case, without_caught_alike(case, without_passed_warnings(case, failing)))
    failing = without_words_beside_the_end(case, failing, ended=progress.ended)
    alone = without_words_of_nodes(case, failing, ended=progress.ended, slower=slow(shown) is not None)
    recovered += [event for event in failing if not alone]
    failing = alone
    failing = without_what_ended_well(case, without_what_is_behind(case, failing), recovered)
    failing = without_repeated(case, failing, recovered)
    left = without_what_it_goes_on_behind(case, without_went_by(case, failing))
    kept = {id(event) for event in left}
    recovered += [event for event in failing if id(event) not in kept]
    scene = Scene(case=case, progress=progress, failing=tuple(without_teardown_alone(case, left)))
    culprit = culprit_of(scene)
    return Judged(scene=scene, culprit=culprit, decided=decide(scene, culprit), recovered=tuple(recovered),
                  shown=shown)  # fmt: skip


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
    if only_ended(decided.leading):
        return "ending", decided.probability
    if not decided.leading.specific:
        return "exception", decided.probability
    return ("symptom" if decided.inferred else "signature"), decided.probability


def _anybody(event: Event) -> bool:
    """Return whether all that is known is a signal that anybody can have sent."""
    causes = event.signature.causes if event.signature is not None else ()
    return event.category == "oom" and any(cause.id == "signal-from-outside" for cause in causes)


def _finished(whole: Case, judged: Sequence[Judged], last: Judged) -> Incident:
    """Return the incident of a run from its attempts."""
    from preflight.investigate.course.attempts import attempt_of

    scene, decided, culprit = last.scene, last.decided, last.culprit
    failed = bool(scene.failing)
    state = state_of(scene) if failed else calm_state(scene, last.shown)
    lagging = slow(last.shown) if not failed and state == "slow" else None
    quiet = not failed and state == "unknown" and is_quiet(scene)
    known = scene.case.people
    category: Category = decided.category if failed else calm_category(lagging, state, quiet=quiet)
    cut = cut_short(scene.case) if state == "running" and not failed else None
    if cut is not None:
        state, category = "unknown", "cannot-tell"
    healthy = not failed and (state in ("running", "ended") or category == "none") and not quiet
    incident = Incident(
        state=state,
        onset=onset_of(scene),
        scope=scope_of(scene, culprit) if failed else "rank" if lagging is not None and slow_ranks(lagging) else None,
        category=category,
        root_category=decided.root if failed else None,
        symptom_category=decided.symptom if failed else None,
        signature=decided.leading.id if failed and decided.leading is not None else None,
        confidence=calibrated(*_ground(decided, failed=failed, quiet=quiet, many=has_many_lines(scene), healthy=healthy or (lagging is not None and category != "cannot-tell"))),
        headline=lagging.text if lagging is not None else up_to(scene) if cut else headline_of(scene, culprit, decided, state),
        culprit=culprit if failed else slow_ones(lagging, known),
        first_failure=first_failure_of(scene, decided, culprit) if failed else None,
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
            for one in unexplained(whole.reading.unknown, whole.reading.raised)
        ),
        loss=loss_of([one.scene for one in judged], known.world),
        world_size=known.world,
        ranks_seen=tuple(sorted(known.seen)),
        nodes_seen=tuple(sorted(known.nodes)),
        reason=cut or why_nothing(failed, healthy, lagging, last.shown),
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
        next=measured(lagging) if lagging is not None else next_steps(scene, culprit, decided, state),
    )
