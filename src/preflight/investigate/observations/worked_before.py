"""Whether the cards had been at work before: then the driver was loaded, suited the library and showed them.

So did the libraries of kernels: one that does not fit fails in its first calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation

_OF_A_DRIVER = ("driver-mismatch", "no-device-visible", "too-few-devices")
_OF_KERNELS = ("hardware.cudnn-misfit", "hardware.cudnn", "usercode.cublas-failed", "oom.cublas-handle")
_MANY = 20
"""After so many steps, of which the log shows more than one, a library had been called for every kernel of a step."""


def observe(scene: Scene) -> Iterator[Observation]:
    """Look whether the attempt made steps before a card, its driver or a library of kernels failed."""
    told = [one for one in scene.failing if one.role == "root" and one.step is not None and one.step >= 1]
    event = next((one for one in told if one.id.startswith("hardware.")), None)
    if event is not None:
        yield Observation(
            text=f"the training had come to step {event.step:,} by then, so the driver was there and showed the card",
            odds={**dict.fromkeys(_OF_A_DRIVER, -2.5), "left-over-state": -0.5, "device-lost": 1.0},
            quotes=(scene.case.quote(event.hit),),
        )
    least = max(_MANY, (scene.progress.first_step or 0) + 1)
    event = next((one for one in told if one.id in _OF_KERNELS and (one.step or 0) >= least), None)
    if event is not None:
        yield Observation(
            text=f"the same kernels had run until step {event.step:,}, so the library fits torch, the driver and the card",
            odds={"version-mismatch": -2.5, "device-fault": 1.5},
            quotes=(scene.case.quote(event.hit),),
        )
