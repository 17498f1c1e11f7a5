"""Which start of a job an incident is told by, where an agent started its workers more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from preflight.investigate.culprit.vote import Scene

if TYPE_CHECKING:
    from preflight.investigate.judge import Judged

_NOT_MET = ("network.gloo-mesh", "network.gloo-connect-retry", "network.store-clients-missing", "network.store-refused")
"""What ranks say that do not find each other when they start."""
_ENDS = ("exit.", "end.", "elastic.")
"""What tells nothing but how a process ended."""


def telling(judged: Sequence[Judged]) -> Judged:
    """Return the attempt that an incident is told by: the last one, unless an agent's restarts failed before they began.

    Workers that are started again look for each other where those that are gone have left their addresses, and what keeps
    them from meeting is what ended the attempt before.
    """
    last = judged[-1]
    for place, before in reversed(list(enumerate(judged[:-1]))):
        lost = any(_never_met(one.scene) for one in judged[: place + 1])
        if not _never_met(last.scene) and not (lost and _never_began(last.scene)):
            break
        if before.scene.failing and any(event.id.startswith("elastic.") for event in before.scene.failing):
            last = before
    return last


def _never_met(scene: Scene) -> bool:
    """Return whether the ranks of an attempt failed to connect before any of them made a step, and none names a cause."""
    return _never_began(scene) and any(event.id in _NOT_MET for event in scene.failing)


def _never_began(scene: Scene) -> bool:
    """Return whether no rank of an attempt made a step, and none names a cause: who met nobody waits until its time is up."""
    met = any(step.step is not None for step in scene.case.steps)
    return not met and not any(event.role == "root" and not event.id.startswith(_ENDS) for event in scene.failing)
