"""Accelerate: ``Accelerator(log_with=["tensorboard", PreflightTracker()])``."""

from __future__ import annotations

from typing import Any

from preflight.integrations.needed import needed
from preflight.integrations.watching import Watching


class PreflightTracker(needed("accelerate.tracking", "accelerate").GeneralTracker):  # type: ignore[misc]
    """Records and watches from here to ``accelerator.end_training()``, and tells the other trackers.

    Accelerate starts trackers on the main process alone; every rank is recorded, so recording begins when this is made.

    Attributes:
        watching: What is recorded; its ``report`` is there when the training has ended.
    """

    name = "preflight"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, output: Any = None, **asked: Any) -> None:
        """Take what ``preflight.monitoring`` takes; ``trackers`` are those in use unless some are given."""
        super().__init__()
        self.watching = Watching(output, **asked)
        self.watching.begin()

    @property
    def tracker(self) -> Watching:
        """What is recorded."""
        return self.watching

    def start(self) -> None:
        """Find the trackers, which Accelerate has made by now."""
        self.watching.find()

    def finish(self) -> None:
        """End, and judge."""
        self.watching.find()
        self.watching.end()
