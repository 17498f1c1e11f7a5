"""Who is behind: the rank whose last step is before that of the others."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.members import left_waiting
from preflight.investigate.culprit.silence import silent_ranks
from preflight.investigate.culprit.vote import Scene, Vote
from preflight.vocabulary.incident import Quote


def votes(scene: Scene) -> Iterator[Vote]:
    """Vote for the few ranks whose last step is before that of most."""
    last: dict[int, tuple[int, int, int]] = {}
    for one in scene.case.steps:
        rank = scene.case.people.placed(one.who, one.file)[0]
        if rank is None:
            rank = scene.case.people.rank_of(scene.case.people.files.get(one.file))
        if rank is not None and one.step is not None and one.step >= last.get(rank, (-1, 0, 0))[0]:
            last[rank] = (one.step, one.file, one.line)
    if len(last) < 3:
        return
    silent = set(silent_ranks(scene))
    usual = sorted(step for step, _, _ in last.values())[len(last) // 2]
    held_up = left_waiting(scene)
    behind = [rank for rank, (step, _, _) in last.items() if step < usual and rank not in held_up]
    if not behind or len(behind) > len(last) // 3:
        return
    for rank in behind:
        if len(scene.case.people.block(rank)) > 1 and set(scene.case.people.block(rank)) <= silent:
            continue  # what a node that is gone still printed of its last step is chance
        step, file, line = last[rank]
        yield Vote(
            kind="behind-in-steps",
            rank=rank,
            strength=1.0 / len(behind),
            text=f"stopped at step {step:,}, while most ranks came to step {usual:,}",
            quotes=(Quote(scene.case.path(file), line, f"step {step} (its last one)"),),
        )
