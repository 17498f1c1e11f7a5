"""What loss and gradients did before numbers went wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation

_LOOK = 50
_LEAST = 6


def observe(scene: Scene) -> Iterator[Observation]:
    """Compare the last values before the first one that is not finite with those before them."""
    for name in ("grad_norm", "loss"):
        values: list[float] = []
        broken = None
        for line in scene.case.steps:
            value = line.values.get(name)
            if value is None:
                continue
            if not math.isfinite(value):
                broken = line.step
                break
            values.append(value)
        if broken is None or len(values) < _LEAST:
            continue
        values = values[-_LOOK:]
        calm = sorted(values[: len(values) // 2])[len(values) // 4]
        last = max(values[-3:])
        if calm > 0 and last > 10 * calm:
            text = f"{name} rose from about {calm:.3g} to {last:.3g} before step {broken}"
            yield Observation(text=text, odds={"learning-rate-too-high": 1.5, "gradient-explosion": 2.0,
                                               "bad-batch": -0.7})  # fmt: skip
        else:
            text = f"{name} was calm (about {calm:.3g}) until step {broken}"
            yield Observation(text=text, odds={"bad-batch": 0.4, "gradient-explosion": -1.5,
                                               "learning-rate-too-high": -1.0})  # fmt: skip
        return
