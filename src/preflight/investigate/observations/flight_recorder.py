"""What the Flight Recorders, or the counters in the watchdog's lines, say of the calls: different ones, or one rank behind."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation

_CALLS = ("collective-mismatch", "rank-dependent-branch", "uneven-samples", "uneven-data")


def observe(scene: Scene) -> Iterator[Observation]:
    """Take what the reading of the dumps found."""
    events = [event for event in scene.case.events if event.id.startswith("flight.")]
    mismatch = next((event for event in events if event.id == "flight.different-calls"), None)
    if mismatch is not None:
        yield Observation(text=mismatch.title, odds={**dict.fromkeys(_CALLS, 2.5), "broken-link": -2.5, "slow-rank": -1.5, "peer-dead": -1.0},
                          quotes=(scene.case.quote(mismatch.hit),))  # fmt: skip
    elif events:
        yield Observation(text=events[0].title, odds={**dict.fromkeys(_CALLS, -0.5), "broken-link": -0.5},
                          quotes=(scene.case.quote(events[0].hit),))  # fmt: skip
