"""Lightning: ``Trainer(callbacks=[PreflightCallback()])``, of ``lightning`` or of ``pytorch_lightning``."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from preflight.integrations.needed import needed
from preflight.integrations.trackers import made
from preflight.integrations.watching import Watching

if TYPE_CHECKING:
    from preflight.monitor.live.tracking import Tracker

# The two packages have the same classes twice; the program's own is the one that it has imported.
_OLD = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
_PACKAGE = needed("pytorch_lightning" if _OLD else "lightning.pytorch", "lightning")


class PreflightCallback(_PACKAGE.Callback):  # type: ignore[misc, name-defined]
    """Records and watches ``trainer.fit()``, and tells the loggers of the trainer.

    Attributes:
        watching: What is recorded; its ``report`` is there when the training has ended.
    """

    def __init__(self, output: Any = None, **asked: Any) -> None:
        """Take what ``preflight.monitoring`` takes; ``trackers`` are the trainer's loggers unless some are given."""
        super().__init__()
        self.watching = Watching(output, **asked)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin, once the ranks are there."""
        self.watching.begin(_trackers(trainer) if trainer.is_global_zero else ())

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """End, and judge."""
        self.watching.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End with what was raised."""
        self.watching.end(exception)


def _trackers(trainer: Any) -> list[Tracker]:
    """Return the trackers behind the loggers of a trainer; a logger of another kind has none."""
    return made((type(one).__name__, partial(_tracker, one)) for one in trainer.loggers)


def _tracker(logger: Any) -> Tracker | None:
    kind = type(logger).__name__
    if kind == "TensorBoardLogger":
        from preflight.integrations.trackers.tensorboard import TensorBoard

        return TensorBoard(logger.experiment)
    if kind == "WandbLogger":
        from preflight.integrations.trackers.wandb import WandB

        return WandB(logger.experiment)
    if kind == "MLFlowLogger":
        from preflight.integrations.trackers.mlflow import MLflow

        return MLflow(logger.run_id, getattr(logger, "_tracking_uri", None))
    return None
