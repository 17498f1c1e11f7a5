"""What the steps of an attempt show, and what of it counts as a failure of its own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from preflight.investigate.case.case import Case, Event
from preflight.investigate.course.skipping import skipped_in_a_row
from preflight.vocabulary.incident import SeriesFinding
from preflight.vocabulary.log import Hit, StepLine, Who
from preflight.vocabulary.signature import Category, Cause, Signature

# What is wrong whatever comes after it: these say of themselves when the values were mended.
_GRAVE: dict[str, tuple[str, tuple[Cause, ...]]] = {
    "nonfinite": ("values of the training are no longer finite", (
        Cause("fp16-overflow", "numbers grew beyond what their type holds", 0.4, None, ("loss-before", "loss-scale")),
        Cause("bad-batch", "a batch holds values that are not finite", 0.3, "data", ("cpu-replay",)),
        Cause("learning-rate-too-high", "the learning rate is too high", 0.2, None, ("loss-before",)),
    )),
    "scale-collapse": ("the loss scale falls and falls", (
        Cause("fp16-overflow", "numbers grew beyond what their type holds", 0.7, None, ("loss-before",)),
    )),
    "divergence": ("the loss diverges", (
        Cause("learning-rate-too-high", "the learning rate is too high", 0.5, None, ("loss-before",)),
        Cause("bad-batch", "the data changed", 0.2, "data", ("cpu-replay",)),
    )),
}  # fmt: skip
_TRIALS = ("progress.search-trial", "progress.sweep-trial")
"""What a search for settings says of each of its trials."""
_TWICE = 2.0
SLOW = ("slowdown", "straggler")
MARKED = 1.1
"""Steps that take a tenth longer for good are worth a look; less than that other work of the machine explains."""
_PHASES: dict[str, Category] = {"data": "data", "communication": "network", "checkpoint": "checkpoint"}


def shown_by(case: Case) -> tuple[SeriesFinding, ...]:
    """Return what the steps of an attempt show."""
    from preflight.investigate.series import Mark, find_in_series

    saved = [
        Mark(event.hit.file, event.hit.line, event.signature.marks)
        for event in case.events
        if event.signature is not None and event.signature.marks == "checkpoint"
    ]
    steps = with_scales(case.every_step, case.events)
    found = find_in_series(steps, case.reading.files, until=_last_sign(case), marks=saved)
    skipped = None if any(one.kind == "scale-collapse" for one in found) else skipped_in_a_row(case)
    return found if skipped is None else (skipped, *found)


def with_scales(steps: Sequence[StepLine], events: Sequence[Event]) -> Sequence[StepLine]:
    """Return the steps with the loss scale that lines of skipped steps tell, where the steps do not tell it themselves."""
    told = [(event.hit, scale) for event in events if (scale := _scale(event)) is not None]
    if not told or any("loss_scale" in one.values for one in steps):
        return steps
    lowered = [
        StepLine(file=hit.file, line=hit.line, step=None, values={"loss_scale": scale}, who=hit.who, time=hit.time)
        for hit, scale in told
    ]
    found: list[StepLine] = []
    current: dict[int, float] = {}
    for one in sorted((*steps, *lowered), key=lambda line: (line.file, line.line)):
        if "loss_scale" in one.values:
            current[one.file] = one.values["loss_scale"]
        elif one.file in current:
            one = msgspec.structs.replace(one, values={**one.values, "loss_scale": current[one.file]})
        found.append(one)
    return found


def _scale(event: Event) -> float | None:
    """Return to what the loss scale was lowered, where a line says that it was."""
    if event.id != "numerical.loss-scale-lowered" or event.hit.file < 0:
        return None
    told = [value for name in ("scale", "to") if isinstance(value := event.hit.fields.get(name), (int, float))]
    return float(told[0]) if told and told[0] > 0 else None


def _last_sign(case: Case) -> float | None:
    """Return when a line was last printed, by the clock of its own writer."""
    times = [event.hit.time for event in case.events if event.hit.time is not None and event.hit.file >= 0]
    times += [spoke.last_time for spoke in case.reading.spoke if spoke.last_time is not None]
    times += [file.last_time for file in case.reading.files if file.last_time is not None and file.kind == "text"]
    return max(times, default=None)


def series_events(case: Case, findings: Sequence[SeriesFinding]) -> tuple[Event, ...]:
    """Return the findings that are failures of their own as events."""
    indices = {file.path: file.index for file in case.reading.files}
    found = []
    for one in findings:
        if (
            one.kind not in _GRAVE
            or one.values.get("recovered")
            or one.values.get("lost") is False
            or one.quote is None
            or _of_a_run_resumed(case, one, indices.get(one.quote.path, -1))
            or (one.kind == "divergence" and _of_a_search(case, indices.get(one.quote.path, -1)))
        ):
            continue
        title, causes = _GRAVE[one.kind]
        name = f"series.{one.kind}"
        signature = Signature(id=name, title=title, category="numerical", role="root", literals=(name,), causes=causes,
                              match=(name,), no_match=("",))  # fmt: skip
        file = indices.get(one.quote.path, -1)
        rank = one.ranks[0] if len(one.ranks) == 1 else None
        hit = Hit(signature=name, file=file, line=one.quote.line, offset=0, text=one.text, who=Who(rank=rank))
        time = next((step.time for step in case.every_step if step.file == file and step.line == one.quote.line), None)
        node = case.people.node_of_who(hit.who, file)
        found.append(
            Event(id=name, title=f"{title}: {one.text}", category="numerical", role="root", hit=hit, signature=signature,
                  rank=rank, node=node, time=case.corrected(time, node), error=case.clock_error(node),
                  step=one.first_step, attempt=case.number)
        )  # fmt: skip
    return tuple(found)


def _of_a_search(case: Case, file: int) -> bool:
    """Return whether a file tells of one trial of a search after another: each trains anew, and some of them are bad."""
    return sum(event.hit.file == file and event.id in _TRIALS for event in case.events) > 1


def _of_a_run_resumed(case: Case, finding: SeriesFinding, file: int) -> bool:
    """Return whether a loss rose, to less than twice its level, after a run had gone on from a checkpoint.

    What had been won before is not in the log, and averages that begin anew settle: the level at first is none to hold it against.
    """
    before, after = finding.values.get("before"), finding.values.get("after")
    if (
        finding.kind != "divergence"
        or finding.quote is None
        or not isinstance(before, float)
        or not isinstance(after, float)
    ):
        return False
    line = finding.quote.line
    resumed = any(
        event.hit.file == file
        and event.hit.line <= line
        and event.signature is not None
        and event.signature.marks == "resume"
        for event in case.events
    )
    return resumed and after < _TWICE * before


def slow(findings: Sequence[SeriesFinding]) -> SeriesFinding | None:
    """Return what says that the run is slow, the one whose phase is known first."""
    told = [one for one in findings if one.kind in SLOW]
    return min(told, key=lambda one: one.phase is None, default=None)


def slow_ranks(finding: SeriesFinding) -> tuple[int, ...]:
    """Return the ranks that make a run slow: those that lag, or the one that alone took the time by which all became slower for good."""
    alone = finding.values.get("alone")
    return (alone,) if not finding.ranks and isinstance(alone, int) and left_slower((finding,)) else finding.ranks


def left_slower(findings: Sequence[SeriesFinding]) -> bool:
    """Return whether the steps are slower at the end by enough to matter, for good as far as the log goes."""
    return any(
        one.kind == "slowdown"
        and bool(one.values.get("lasts") or one.values.get("gradual"))
        and float(one.values.get("ratio") or 1.0) >= MARKED
        for one in findings
    )


def category_of_phase(finding: SeriesFinding) -> Category | None:
    """Return the category of the phase that slowed; None where it is not known."""
    return _PHASES.get(finding.phase or "")
