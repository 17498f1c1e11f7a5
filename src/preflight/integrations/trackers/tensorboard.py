"""TensorBoard: curves under ``preflight/``, alarms and the verdict as text."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from preflight.integrations.needed import needed
from preflight.integrations.trackers._words import VERDICTS, markdown, table
from preflight.monitor.live.tracking import Alarm
from preflight.vocabulary.report import Report


class TensorBoard:
    """Writes beside what the program writes, or into a folder of its own."""

    name = "TensorBoard"

    def __init__(self, where: str | os.PathLike[str] | Any) -> None:
        """Take a folder, or a ``SummaryWriter`` that there is.

        Raises:
            UsageError: The package tensorboard is not installed.
        """
        self._own = os.fspath(where) if isinstance(where, (str, os.PathLike)) else None
        self._writer: Any = None if self._own is not None else where
        if self._own is not None:
            needed("tensorboard", "tensorboard")
            self._make = needed("torch.utils.tensorboard", "tensorboard").SummaryWriter

    def open(self) -> None:
        """Begin the file in a folder of its own; every rank makes a tracker, and the first one opens it."""
        if self._writer is None:
            self._writer = self._make(self._own)

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        """Write a point of each curve."""
        with _Left(self._writer):
            for name, value in values.items():
                self._writer.add_scalar(f"preflight/{name}", value, step)

    def alarm(self, alarm: Alarm) -> None:
        """Write an alarm as text at its step."""
        with _Left(self._writer):
            self._writer.add_text("preflight/alarm", markdown(alarm), alarm.step)

    def end(self, step: int, report: Report, alarms: Sequence[Alarm]) -> None:
        """Write the verdict, and all alarms as a table."""
        with _Left(self._writer):
            text = f"**{report.verdict}**" + (f"\n\n{table(alarms)}" if alarms else "")
            self._writer.add_text("preflight/verdict", text, step)
            if report.verdict in VERDICTS:
                self._writer.add_scalar("preflight/go", VERDICTS[report.verdict], step)

    def close(self) -> None:
        """Close the writer of a folder of its own."""
        if self._own is not None and self._writer is not None:
            self._writer.close()


class _Left:
    """Leaves a writer as it was found: open and flushed, or closed."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._close = _closed(writer)

    def __enter__(self) -> None:
        """Nothing is to be done: a closed writer opens a new file in its folder by itself."""

    def __exit__(self, *error: object) -> None:
        self._writer.flush()
        if self._close:
            self._writer.close()


def _closed(writer: Any) -> bool:
    return getattr(writer, "all_writers", writer) is None


def in_use() -> TensorBoard | None:
    """Return the first open writer of the program; torch keeps no list of them, but the garbage collector does."""
    module = sys.modules.get("torch.utils.tensorboard.writer")
    kind = getattr(module, "SummaryWriter", None)
    if kind is None:
        return None
    writer = next((one for one in gc.get_objects() if type(one) is kind and not _closed(one)), None)
    return None if writer is None else TensorBoard(writer)
