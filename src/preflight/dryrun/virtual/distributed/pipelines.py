"""Pipelines: a stage learns the shapes that it gets from the ranks beside it, which are not there.

What comes from the next stage on the way back has the shapes of what this stage sends. What comes from the stage before is
what that one sent when its rank was run; a rank that runs later is given it.
"""

from __future__ import annotations

import base64
import io
import pickle
from typing import Any

from preflight.dryrun.virtual.absent import after
from preflight.dryrun.virtual.distributed.traffic import Traffic


class Mail:
    """What stages tell each other of shapes.

    Args:
        given: What stages on ranks that were run before have sent, by the number of the stage that gets it.
    """

    def __init__(self, given: dict[str, str]) -> None:
        self._sent: dict[int, str] = {int(stage): text for stage, text in given.items()}

    def send(self, stage: int, thing: Any) -> None:
        """Keep what a stage is sent."""
        self._sent[stage] = base64.b64encode(pickle.dumps(thing)).decode()

    def read(self, stage: int) -> Any:
        """Return what a stage was sent, or what the nearest one before it was: stages in the middle are alike.

        Raises:
            RuntimeError: Nothing was sent to any stage before.
        """
        near = max((known for known in self._sent if known <= stage), default=None)
        if near is None:
            raise RuntimeError(f"stage {stage} of the pipeline gets its shapes from a rank that was not run")
        return pickle.load(io.BytesIO(base64.b64decode(self._sent[near])))

    def told(self) -> dict[str, str]:
        """Return what was sent, for the ranks that run later."""
        return {str(stage): text for stage, text in self._sent.items()}


def install(traffic: Traffic, mail: Mail) -> None:
    """Watch for pipelines, whose stages are on different ranks."""

    def watch(module: Any) -> None:
        base = getattr(module, "_PipelineStageBase", None)
        kind = getattr(module, "PipelineStage", None)
        if base is None or kind is None:
            return
        make, first_shapes = base.__init__, getattr(module, "_StageBackwardMeta", None)

        def made(stage: Any, *args: Any, **kwargs: Any) -> None:
            make(stage, *args, **kwargs)
            traffic.pipeline(getattr(stage, "group", None))

        def received(stage: Any, source: int) -> Any:
            if source < stage.stage_index or first_shapes is None:
                return mail.read(stage.stage_index)
            kept = stage._fwd_outputs_for_bwd_meta or ()
            shapes = stage._stage_meta.outputs
            if len(kept) == len(shapes):
                shapes = tuple(s if t.requires_grad else None for s, t in zip(shapes, kept, strict=True))
            return first_shapes(backward_metas=shapes)

        base.__init__ = made
        if hasattr(kind, "_recv_meta"):
            kind._recv_meta = received
            kind._send_meta = lambda stage, meta, target: mail.send(target, meta)

    after.imported("torch.distributed.pipelining.stage", watch)
