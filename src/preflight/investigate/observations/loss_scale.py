"""Whether the loss scale fell before numbers went wrong."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation


def observe(scene: Scene) -> Iterator[Observation]:
    """Count how often the scale was halved in a row at the end."""
    scales = [line.values["loss_scale"] for line in scene.case.steps if "loss_scale" in line.values]
    if len(scales) < 4:
        return
    falls = 0
    for earlier, later in zip(reversed(scales[:-1]), reversed(scales[1:]), strict=True):
        if later > earlier:
            break
        falls += later < earlier
    causes = ("fp16-overflow", "loss-scale-collapse")
    if falls >= 3:
        text = f"the loss scale fell {falls} times without rising, to {scales[-1]:g}"
        yield Observation(text=text, odds=dict.fromkeys(causes, 2.0))
    elif falls == 0:
        yield Observation(text=f"the loss scale held at {scales[-1]:g}", odds=dict.fromkeys(causes, -1.5))
