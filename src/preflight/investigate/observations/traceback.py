"""Where a traceback ends: in the loader, in saving or loading, or in the step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.investigate.culprit.vote import Scene
from preflight.investigate.observations.observation import Observation

_PLACES = {
    ("torch/utils/data/", "webdataset/", "streaming/", "datasets/"): ("in loading data", {"bad-batch": 1.5, "corrupt-sample": 1.5, "sample-raises": 1.5, "step-failed": -1.0}),
    ("torch/serialization.py", "distributed/checkpoint/", "safetensors/"): ("in reading or writing a checkpoint", {"checkpoint-truncated": 1.0, "checkpoint-corrupt": 1.0, "killed-while-saving": 0.5}),
    ("nn/functional.py", "nn/modules/loss.py"): ("in a layer or the loss", {"label-out-of-range": 0.7, "index-out-of-range": 0.7, "shape-mismatch": 0.5}),
}  # fmt: skip


def observe(scene: Scene) -> Iterator[Observation]:
    """Look at the innermost frames of the event that failed first."""
    raised = next((event.raised for event in scene.failing if event.raised is not None and event.raised.frames), None)
    if raised is None:
        return
    inner = [frame.path.replace("\\", "/") for frame in raised.frames[-4:]]
    for parts, (words, odds) in _PLACES.items():
        if any(part in path for path in inner for part in parts):
            yield Observation(text=f"the traceback ends {words}", odds=odds, quotes=(scene.case.quote(raised.hit),))
            return
