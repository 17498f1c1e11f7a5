"""What would make a script fit, or save memory: measured by running it again, and said as recommendations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from preflight.vocabulary.fact import Fact
from preflight.vocabulary.measured import LargestBatch, Measured, Trial
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import format_bytes
from preflight.vocabulary.report import Recommendation

if TYPE_CHECKING:
    from preflight.check.asked import Options
    from preflight.dryrun.launch import Job

_WORTH = 0.99
"""A change that leaves more of the peak than this is not recommended."""
_SHOWN = 8


def wanted(profile: Profile, options: Options) -> bool:
    """Whether to run again: the GPU was full, or it was asked for; and the script went far enough to compare."""
    from preflight.dryrun.fit.rounds import LEAST

    went = profile.outcome in ("ended", "stopped", "exited") and profile.steps >= LEAST
    if profile.loaded:
        return False  # the changes are made to the first rank, which says nothing of a fuller one
    return went and (options.what_fits if options.what_fits is not None else profile.full is not None)


def measure(job: Job, profile: Profile, facts: dict[str, Fact], seconds: float) -> Measured:
    """Run the script again with changes, within so many seconds for all of these runs."""
    from preflight.dryrun.fit import search
    from preflight.dryrun.fit.batches import Place

    batch = facts.get("batch.micro")
    told = batch.value if batch is not None and isinstance(batch.value, int) else None
    at = batch.location if batch is not None else None
    place = None
    if told is not None and at is not None and at.path and at.line and at.column and os.path.isfile(at.path):
        place = Place(os.path.realpath(at.path), at.line, at.column)
    return search.measure(job, profile, seconds, told, place)


def recommendations(found: Measured) -> list[Recommendation]:
    """Say what to change: what makes it fit first, the mildest change before the others.

    A script that puts nothing on the GPU has nothing to be changed.
    """
    if found.peak_bytes == 0:
        return []
    made = [] if found.largest_batch is None else _of_batch(found, found.largest_batch)
    fitting = [t for t in found.trials if t.fits and not found.fits]
    single = [t for t in fitting if len(t.keys) == 1]
    others = [t for t in found.trials if t.applied and t not in fitting and len(t.keys) == 1]
    others = sorted((t for t in others if _share(found, t) < _WORTH), key=lambda t: _share(found, t))
    first = [_of_trial(found, t, "critical") for t in (single or fitting)]
    rest = [_of_trial(found, t, "low" if found.fits else "high") for t in others]
    return ([*first, *made, *rest] if not found.fits else [*made, *rest])[:_SHOWN]


def _share(found: Measured, trial: Trial) -> float:
    return (trial.peak_bytes or 0) / found.peak_bytes


def _of_trial(found: Measured, trial: Trial, priority: str) -> Recommendation:
    assert trial.peak_bytes is not None
    before, after = format_bytes(found.peak_bytes), format_bytes(trial.peak_bytes)
    said = f"measured by running again: peak {after} in the place of {before}"
    if not found.fits:
        said += ": fits" if trial.fits else ": still does not fit"
    return Recommendation(priority, trial.change, said, trial.side_effect)  # type: ignore[arg-type]


def _of_batch(found: Measured, largest: LargestBatch) -> list[Recommendation]:
    before, batch = largest.before, largest.batch
    if before is None or batch is None or batch == before or batch == 0:
        return []
    sizes = {point.batch: point for point in largest.points}
    where = _where(largest)
    if not found.fits:
        change = f"lower the batch{where} from {before} to {batch}"
        cost = "another batch: the learning rate may have to follow; accumulating gradients keeps it"
    else:
        change = f"raise the batch{where} from {before} to {batch} {'at most' if largest.next else 'or more'}"
        cost = "another batch: the learning rate may have to follow"
    effect = f"measured by running again: peak {format_bytes(sizes[batch].peak_bytes)} of {format_bytes(found.capacity_bytes)}: fits"
    if largest.next is not None:
        effect += f"; {largest.next} does not"
    return [Recommendation("medium" if found.fits else "critical", change, effect, cost)]


def _where(largest: LargestBatch) -> str:
    if largest.place is None:
        return ""
    return f" ({largest.place})" if largest.how == "constant" else f" ({largest.place} on the command line)"


def _answers(found: Measured) -> bool:
    """Whether something makes it fit."""
    return any(trial.fits for trial in found.trials) or bool(found.largest_batch and found.largest_batch.batch)


def says_something(found: Measured) -> bool:
    """Whether any run gave an answer; estimates are all there is where none did."""
    return any(trial.applied for trial in found.trials) or bool(found.largest_batch and found.largest_batch.points)


def notes_of(found: Measured) -> list[str]:
    """What a reader has to know of the runs."""
    notes = [f"ran the script {found.runs} more times with changes, {found.seconds:.0f} s"]
    if found.left_out:
        notes.append(f"the time did not suffice for: {', '.join(found.left_out)}; --time-limit gives it longer")
    largest = found.largest_batch
    if largest is not None and largest.reason:
        notes.append(f"largest batch: {largest.reason}")
    elif largest is not None and largest.batch == 0:
        notes.append("not even a batch of 1 fits")
    elif largest is not None and largest.batch == largest.before and largest.next is not None:
        notes.append(f"the batch of {largest.batch} is the largest that fits: {largest.next} does not")
    if not found.fits and not found.left_out and not _answers(found):
        notes.append("no change that was tried makes it fit, alone or together with others")
    return notes
