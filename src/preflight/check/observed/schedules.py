"""What a dry run saw of schedules: whether they step with batches or with epochs, and how long the loops are."""

from __future__ import annotations

from itertools import pairwise

from preflight.check.observed.run import Run
from preflight.vocabulary.seen import LoaderSeen, Observation


def training_loader(run: Run) -> LoaderSeen | None:
    """The only loader whose batches are learned from, where it has more than one."""
    found = [loader for loader in run.profile.loaders if loader.trains and (loader.batches or 0) > 1]
    return found[0] if len(found) == 1 else None


def steps_of(run: Run, number: int) -> tuple[list[Observation], list[Observation]]:
    """The steps of an optimizer, and those of its schedulers."""
    updates = [item for item in run.seen("optimizer step") if item.data["optimizer"] == number]
    return updates, [item for item in run.seen("scheduler step") if item.data["optimizer"] == number]


def with_each_batch(run: Run, number: int) -> bool:
    """Whether a scheduler steps once between any two steps of its optimizer, within one round of the loader."""
    loader, (updates, moves) = training_loader(run), steps_of(run, number)
    if loader is None or len(updates) < 3 or not moves or loader.rounds > 1 + len(updates) // 3:
        return False
    counts = [sum(a.order < m.order < b.order for m in moves) for a, b in pairwise(updates)]
    return sum(count == 1 for count in counts) >= 2 and max(counts) == 1 and len({m.line for m in moves}) == 1


def epochs(run: Run) -> list[int]:
    """The lengths of the loops that were cut short and are no loader's: of epochs, where they are of anything."""
    batches = {loader.batches for loader in run.profile.loaders}
    return [
        cut.length for cut in run.profile.cut if cut.length is not None and cut.length > 1 and cut.length not in batches
    ]


def between_batches(run: Run, number: int) -> bool:
    """Whether a scheduler first steps after several steps of its optimizer, and never with only one of them in between."""
    updates, moves = steps_of(run, number)
    if not moves or sum(item.order < moves[0].order for item in updates) < 2:
        return False
    pairs = pairwise(moves)
    return all(sum(a.order < item.order < b.order for item in updates) != 1 for a, b in pairs)
