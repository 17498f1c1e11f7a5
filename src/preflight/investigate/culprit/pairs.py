"""Two ranks that differ, and nothing that tells which of them is the odd one."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.investigate.culprit.vote import Scene, Vote, compares

TELLS = "two ranks differ, and nothing in the logs tells which of the two is as it should be"
_OF_EITHER = frozenset(
    ("size-differs", "exit-error", "agent-first", "silent", "no-log", "accused", "late", "first-in-time")
)
"""What is seen of either of two that differ: whose process ends of it, and whose end is seen first, is chance."""


def cannot_be_told(scene: Scene, pointing: Sequence[Vote]) -> bool:
    """Return whether there are two ranks alone that differ, and all that points to one of them may be seen of the other one as well."""
    people = scene.case.people
    if len(people.ranks()) != 2 or (people.world or 2) != 2 or not any(compares(event) for event in scene.failing):
        return False
    return all(vote.kind in _OF_EITHER for vote in pointing)
