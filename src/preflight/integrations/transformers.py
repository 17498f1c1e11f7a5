"""Hugging Face Transformers: ``Trainer(..., callbacks=[PreflightCallback()])``."""

from __future__ import annotations

from typing import Any

from preflight.integrations.needed import needed
from preflight.integrations.watching import Watching


class PreflightCallback(needed("transformers", "transformers").TrainerCallback):  # type: ignore[misc]
    """Records and watches ``trainer.train()``, and tells the trackers of ``report_to``.

    Attributes:
        watching: What is recorded; its ``report`` is there when the training has ended.
    """

    def __init__(self, output: Any = None, **asked: Any) -> None:
        """Take what ``preflight.monitoring`` takes; ``trackers`` are those in use unless some are given."""
        self.watching = Watching(output, **asked)

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Begin; the trackers of ``report_to`` have been set up before."""
        self.watching.begin()

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """End, and judge."""
        self.watching.end()
