"""Runs a job again with changes, within a time that all runs share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from preflight.dryrun.fit.known import Known
from preflight.dryrun.launch import Job
from preflight.errors import PreflightError
from preflight.vocabulary.measured import Trial
from preflight.vocabulary.profile import Profile

Item = TypeVar("Item")
Result = TypeVar("Result")
LEAST = 2
"""Optimizer steps of which a run must be through: the first makes the optimizer's states, the second holds them all along."""


class OutOfTime(Exception):
    """The time that the runs share is over."""


class Rounds:
    """Runs of one job.

    Args:
        run: Runs a job.
        job: The script as it is.
        seconds: The time that all runs share.
        tell: Is given a line before each run.
    """

    def __init__(
        self, run: Callable[[Job], Profile], job: Job, seconds: float, tell: Callable[[str], None] | None = None
    ) -> None:
        self._run, self.job, self._tell = run, job, tell
        self._began, self._seconds = time.monotonic(), seconds
        self._lock = threading.Lock()
        self.runs = 0

    @property
    def spent(self) -> float:
        """Seconds since the first run could begin."""
        return time.monotonic() - self._began

    def again(
        self,
        what: str,
        changes: Sequence[dict[str, Any]] = (),
        arguments: tuple[str, ...] | None = None,
        environment: dict[str, str] | None = None,
    ) -> Profile | None:
        """Run the job with changes; None where it gave no answer.

        Raises:
            OutOfTime: The time is over, before or in this run.
        """
        left = self._seconds - self.spent
        if left <= 0:
            raise OutOfTime
        with self._lock:
            self.runs += 1
        if self._tell is not None:
            self._tell(f"running again: {what}")
        job = msgspec.structs.replace(
            self.job,
            changes=(*self.job.changes, *changes),
            arguments=self.job.arguments if arguments is None else arguments,
            environment=self.job.environment | (environment or {}),
            seconds=left,
            snapshot=None,
        )
        try:
            seen = self._run(job)
        except PreflightError:
            if self.spent >= self._seconds:
                raise OutOfTime from None
            return None
        if seen.outcome == "time is up":
            raise OutOfTime
        return seen

    def trial(self, known: Known, batch: int | None = None, arguments: tuple[str, ...] | None = None) -> Trial:
        """Run a change and say what came of it.

        Raises:
            OutOfTime: The time is over.
        """
        seen = self.again(known.key, known.changes, arguments, known.environment)
        return told(known, seen, batch)


def told(known: Known, seen: Profile | None, batch: int | None = None) -> Trial:
    """Return what a run with a change showed."""
    plain = Trial(keys=tuple(known.key.split(" + ")), change=known.title, side_effect=known.side_effect, batch=batch)
    reason = why_not(seen)
    if reason is not None or seen is None:
        return msgspec.structs.replace(plain, reason=reason)
    done: dict[str, int] = {}
    for change in seen.changed:
        done |= change.done
    return msgspec.structs.replace(
        plain,
        applied=True,
        fits=seen.full is None,
        peak_bytes=seen.peak_bytes,
        reserved_bytes=max(seen.reserved_bytes, seen.peak_bytes),
        done=done,
    )


def why_not(seen: Profile | None) -> str | None:
    """Say why a changed run says nothing, or None if it does."""
    if seen is None:
        return "the changed run gave no answer"
    for change in seen.changed:
        # Data that is enough need not be repeated; every other change has to have found something.
        if not change.done and change.name != "loader":
            return "; ".join(change.refused) or "nothing was found that it could change"
    if seen.outcome == "failed":
        first = next((line.strip() for line in (seen.message or "").splitlines() if line.strip()), "")
        return f"the changed script ends with {seen.error}: {first[:200]}"
    if seen.steps < LEAST:
        return f"the changed run got through {seen.steps} of {LEAST} optimizer steps"
    return None


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> list[Result | None]:
    """Do some work for every item, several at a time; an item for which the time did not suffice gives None."""
    from concurrent.futures import ThreadPoolExecutor

    def one(item: Item) -> Result | None:
        try:
            return work(item)
        except OutOfTime:
            return None

    with ThreadPoolExecutor(max_workers=processes) as pool:
        return list(pool.map(one, items))
