"""Writes down what happens during a training: one JSON object a line, from any number of processes into one file.

It is made to be imported by training code: the standard library is enough for it.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, NamedTuple


class TrainingEvent(NamedTuple):
    """One event, with the names that its line has."""

    timestamp: float
    event_type: str
    details: dict[str, Any]
    step: int | None
    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    job: str | None = None


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


class EventLogger:
    """Writes events to a file; ranks, forked workers and restarted jobs may share it.

    >>> events = EventLogger("training_events.jsonl")
    >>> events.log_checkpoint(100, "step-100.pt")
    >>> events.log("lr_change", {"old": 0.1, "new": 0.01}, 200)

    Every event is one write at the end of the file, under a lock where there is one, so that lines never mix; nothing is kept in
    memory, and a killed process loses nothing that it wrote.
    """

    def __init__(
        self,
        log_file: str | os.PathLike[str] = "training_events.jsonl",
        *,
        rank: int | None = None,
        job: str | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            log_file: The file; it grows.
            rank: The rank that writes; by default what the launcher says (``RANK`` or ``SLURM_PROCID``).
            job: The job; by default what the scheduler or launcher says.
        """
        self.log_file = os.fspath(log_file)
        self.rank = rank if rank is not None else _number("RANK") if "RANK" in os.environ else _number("SLURM_PROCID")
        self.job = job or os.environ.get("SLURM_JOB_ID") or os.environ.get("TORCHELASTIC_RUN_ID") or None
        self._host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME")

    def log(self, event_type: str, details: dict[str, Any] | None = None, step: int | None = None) -> None:
        """Write an event; what JSON has no form for is written as text."""
        entry = {
            "timestamp": time.time(), "event_type": str(event_type), "details": details or {}, "step": step, "rank": self.rank,
            "host": self._host, "pid": os.getpid(), "job": self.job,
        }  # fmt: skip
        line = json.dumps({key: value for key, value in entry.items() if value is not None}, default=str) + "\n"
        # Opened for every event: a descriptor that is kept would be shared by forked workers, and lost on a closed one.
        descriptor = os.open(self.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _lock(descriptor)
            content = line.encode()
            while content:
                content = content[os.write(descriptor, content) :]
        finally:
            os.close(descriptor)

    def log_start(self, step: int | None = None, **details: Any) -> None:
        """The training starts, or starts again; time without a training is not counted as observed."""
        self.log("start", details, step)

    def log_end(self, step: int | None = None, **details: Any) -> None:
        """The training ended as it should."""
        self.log("end", details, step)

    def log_checkpoint(self, step: int, path: str) -> None:
        """A checkpoint is saved."""
        self.log("checkpoint", {"path": str(path)}, step)

    def log_lr_change(self, step: int, old_lr: float, new_lr: float) -> None:
        """The learning rate changes."""
        self.log("lr_change", {"old": old_lr, "new": new_lr}, step)

    def log_batch_size_change(self, step: int, old: int, new: int) -> None:
        """The batch size changes."""
        self.log("batch_size_change", {"old": old, "new": new}, step)

    def log_evaluation(self, step: int, **details: Any) -> None:
        """An evaluation starts."""
        self.log("eval_start", details, step)

    def log_failure(self, step: int | None, error: str, category: str = "unknown") -> None:
        """Something failed; with it the observed time of this run ends."""
        self.log("failure", {"error": str(error), "category": category}, step)

    @property
    def events(self) -> list[TrainingEvent]:
        """Every event in the file, also those of other processes; lines that were cut off are left out."""
        try:
            with open(self.log_file, encoding="utf-8", errors="replace") as file:
                return [event for line in file if (event := event_of(line)) is not None]
        except FileNotFoundError:
            return []


def event_of(line: str) -> TrainingEvent | None:
    """Read a line back; also that of a logger which calls the time ``time`` or ``ts`` and the type ``event`` or ``type``."""
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            return None
        when = next(entry[key] for key in ("timestamp", "time", "ts") if key in entry)
        kind = next(entry[key] for key in ("event_type", "event", "type") if key in entry)
        step = entry.get("step")
        details = entry.get("details")
        return TrainingEvent(
            timestamp=float(when), event_type=str(kind), details=details if isinstance(details, dict) else {},
            step=int(step) if step is not None else None, rank=entry.get("rank"), host=entry.get("host"), pid=entry.get("pid"),
            job=str(entry["job"]) if entry.get("job") is not None else None,
        )  # fmt: skip
    except (ValueError, TypeError, StopIteration):
        return None


def _lock(descriptor: int) -> None:
    """Wait for the file; where there are no locks (Windows, some network disks), one write at its end is as good as it gets."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except (ImportError, OSError):
        pass
