"""How far the run had come when its memory ran out: at once is a question of size, late one of growth or of a long sample."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation

_LATE = 200


def observe(scene: Scene) -> Iterator[Observation]:
    """Look at the step at which memory ran out, counted from the first one of this attempt."""
    event = next((one for one in scene.failing if one.category == "oom" and one.role == "root"), None)
    first, last = scene.progress.first_step, scene.progress.last_step
    if event is None:
        return
    quotes = (scene.case.quote(event.hit),)
    if first is None or last is None:
        return
    steps = last - first
    if steps <= 1:
        text = "it happened in the first steps, before anything could have grown"
        yield Observation(text=text, odds={"memory-grows": -2.5, "peak-exceeds-device": 0.5}, quotes=quotes)
    elif steps >= _LATE:
        text = f"{steps:,} steps of this attempt went well before it: the step as such fits"
        yield Observation(
            text=text, odds={"memory-grows": 1.0, "fragmentation": 0.5, "ranks-share-device": -1.0}, quotes=quotes
        )
