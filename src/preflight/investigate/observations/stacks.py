"""What the stacks of the ranks say: one is at something else, they wait in different calls, or all wait in the same."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation
from preflight.investigate.recorder import stacked

# Natural logarithms of the likelihood ratios in the experiment "stacks" of the catalogue, made milder: a stack is one moment.
_BUSY = {
    "slow-rank": 2.0,
    "slow-loader": 1.0,
    "storage-slow": 1.0,
    "collective-mismatch": -1.0,
    "peer-dead": -3.0,
    "broken-link": -2.0,
}
_DIFFERENT = {
    "collective-mismatch": 2.0,
    "rank-dependent-branch": 1.5,
    "slow-rank": -1.0,
    "peer-dead": -2.0,
    "broken-link": -1.0,
}
_SAME = {"broken-link": 1.0, "slow-rank": -1.0, "collective-mismatch": -1.5}


def observe(scene: Scene) -> Iterator[Observation]:
    """Take what the grouping of the stacks found; a rank that has one is alive."""
    evidence = stacked(scene.case)
    if evidence is None or evidence.dominant is None:
        return
    if not evidence.outliers:
        if evidence.dominant.communicating:
            yield Observation(text=f"all stacks that were taken wait in {evidence.dominant.place}", odds=_SAME)
        return
    if not evidence.dominant.communicating:
        return
    busy = next((group for group in evidence.outliers if not group.communicating), None)
    group = busy or evidence.outliers[0]
    who = ", ".join(group.names[:4]) + (" ..." if len(group.names) > 4 else "")
    kind = "alive and at something else" if busy else "alive and in another call"
    yield Observation(text=f"{who}: {kind}, in {group.place}", odds=_BUSY if busy else _DIFFERENT)
