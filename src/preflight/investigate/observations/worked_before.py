"""Whether the cards had been at work before: then the driver was loaded, suited the library and showed them."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation

_OF_A_DRIVER = ("driver-mismatch", "no-device-visible", "too-few-devices")


def observe(scene: Scene) -> Iterator[Observation]:
    """Look whether the attempt made steps before a card or its driver failed."""
    event = next((one for one in scene.failing if one.id.startswith("hardware.") and one.role == "root"), None)
    if event is None or event.step is None or event.step < 1:
        return
    yield Observation(
        text=f"the training had come to step {event.step:,} by then, so the driver was there and showed the card",
        odds={**dict.fromkeys(_OF_A_DRIVER, -2.5), "left-over-state": -0.5, "device-lost": 1.0},
        quotes=(scene.case.quote(event.hit),),
    )
