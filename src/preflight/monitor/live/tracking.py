"""Tells trackers of a run that goes on in this process: its figures from time to time, alarms when they come, the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from preflight.monitor.live.remarks import reason_of, say
from preflight.monitor.live.telling import Teller
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import Report

EVERY = 5.0
"""Seconds between two looks."""
PATIENCE = 20.0
"""Seconds at the end for all trackers together."""


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """The root of a group of violations, as a tracker shows it.

    Attributes:
        step: The optimizer step in which it was first seen, from 0.
        severity: What it means for the run.
        relation: What does not hold, by its short name.
        sentence: The same as a sentence.
        place: ``file:line`` of the user's code; empty where none is known.
        code: That line.
        ranks: The ranks on which it was seen.
    """

    step: int
    severity: str
    relation: str
    sentence: str
    place: str = ""
    code: str = ""
    ranks: tuple[int, ...] = ()


class Tracker(Protocol):
    """Where a run's numbers are kept: TensorBoard, W&B, MLflow, Prometheus.

    It is told from a thread of its own. Where it has ``open()``, that is called before, in the thread of the training
    and on the first rank alone; where it has ``close()``, that is called at the end, and when it has failed.

    Attributes:
        name: What to call it in a remark.
    """

    name: str

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        """Take numbers of the run; the names are those of ``Tracking.values``."""

    def alarm(self, alarm: Alarm) -> None:
        """Take an alarm."""

    def end(self, step: int, report: Report, alarms: Sequence[Alarm]) -> None:
        """Take the report of the whole run and all its alarms."""


def alarm_of(one: Violation) -> Alarm:
    """Return a violation, the root of its group, as a tracker shows it."""
    import linecache

    path, line = one.location.path, one.location.line
    return Alarm(
        step=one.first_step,
        severity=one.severity,
        relation=one.relation,
        sentence=one.message,
        place=f"{path}:{line}" if path and line else path or "",
        code=linecache.getline(path, line).strip() if path and line else "",
        ranks=one.ranks,
    )


def alarms_of(report: Report) -> list[Alarm]:
    """Return the alarms of a report: the root of every group."""
    roots = {one.group: one for one in reversed(report.violations)}
    return [alarm_of(roots[group]) for group in sorted(roots)]


def counts(alarms: Sequence[Alarm]) -> dict[str, float]:
    """Return how many alarms of each kind there are."""
    return {
        "violations": float(len(alarms)),
        "errors": float(sum(one.severity == "error" for one in alarms)),
        "warnings": float(sum(one.severity == "warning" for one in alarms)),
    }


class Tracking:
    """Looks now and then, at the turn of an iteration, whether there is something to tell.

    A tracker that fails is left out from then on, with a remark; the training goes on.

    Attributes:
        tellers: What tells the trackers.
    """

    def __init__(self, recorder: Any, alerts: Path, every: float = EVERY) -> None:
        """Take the recorder of this process, and the file to which the watching process writes alarms."""
        self.tellers: list[Teller] = []
        self._broken = False
        self._recorder = recorder
        self._alerts = alerts
        self._read = 0
        self._every = every
        self._told: list[Alarm] = []
        self._began = self._last = time.monotonic()
        self._counted: tuple[float, int] | None = None  # when the steps were counted last, and how many there were
        self._spent = 0.0
        self._last_values: dict[str, float] = {}

    def add(self, tracker: Tracker, *, found: bool = False) -> None:
        """Tell a tracker from now on; one that was only found is left out where one of its kind is told already."""
        if found and any(type(one.tracker) is type(tracker) for one in self.tellers):
            return
        try:
            teller = Teller(tracker)
        except Exception as error:
            say(f"{getattr(tracker, 'name', type(tracker).__name__)} takes no figures: {reason_of(error)}")
            return
        if not self.tellers:
            self._recorder.at_turn.append(self.look)
        self.tellers.append(teller)

    def look(self) -> None:
        """Tell what is new, where it is time to."""
        now = time.monotonic()
        if self._counted is None:
            self._counted = now, self._recorder.step  # what came before the first turn is the start-up of the program
        if now - self._last < self._every:
            return
        try:
            for alarm in self._new():
                self._tell(alarm)
            step = self._recorder.step
            values = self.values(now)
            self._each(lambda one: one.figures(step, values))
        except Exception as error:  # nothing gets out into the training
            if not self._broken:
                say(f"trackers may miss something: {reason_of(error)}")
            self._broken = True
        self._last, self._counted = now, (now, self._recorder.step)
        took = time.monotonic() - now
        self._spent += took
        # The budget is that of the recording, which could do nothing about many alarms by recording less.
        self._recorder.spent -= int(took * 1e9)

    def values(self, now: float) -> dict[str, float]:
        """The numbers of this moment: alarms, steps, seconds of a step since the last look, cost, memory."""
        recorder = self._recorder
        spent = recorder.spent / 1e9 + self._spent + sum(one.spent for one in self.tellers)
        values = {
            **counts(self._told),
            "steps": float(recorder.step),
            "overhead_percent": 100 * spent / max(now - self._began, 1e-9),
        }
        since, before = self._counted or (now, recorder.step)
        if recorder.step > before:
            values["step_seconds"] = (now - since) / (recorder.step - before)
        cuda = getattr(recorder.torch, "cuda", None)
        if cuda is not None and cuda.is_available() and cuda.is_initialized():
            values["memory_peak_bytes"] = float(cuda.max_memory_allocated())
        return values

    def stop(self) -> None:
        """Keep the last numbers: the recording has ended, and what is judged from here on is no part of the run."""
        self._last_values = self.values(time.monotonic())

    def end(self, report: Report) -> None:
        """Tell what was not told yet, the last numbers, and the report."""
        alarms = alarms_of(report)
        told = {(one.relation, one.step) for one in self._told}
        for alarm in alarms:
            if (alarm.relation, alarm.step) not in told:
                self._tell(alarm)
        step = self._recorder.step
        values = {**self._last_values, **counts(alarms)}
        self._each(lambda one: one.figures(step, values))
        self._each(lambda one: one.end(step, report, alarms))

    def close(self) -> None:
        """Let the trackers take what waits, and close them; a second time does nothing."""
        until = time.monotonic() + PATIENCE
        tellers, self.tellers = self.tellers, []
        for one in tellers:
            one.close(until)

    def _tell(self, alarm: Alarm) -> None:
        self._told.append(alarm)
        self._each(lambda one: one.alarm(alarm))

    def _new(self) -> list[Alarm]:
        """The alarms that the watching process has written since the last look."""
        try:
            with self._alerts.open("rb") as stream:
                stream.seek(self._read)
                whole = stream.read().rpartition(b"\n")[0]
        except OSError:
            return []
        self._read += len(whole) + 1 if whole else 0
        lines = map(msgspec.json.decode, whole.splitlines())
        return [alarm_of(msgspec.convert(line["violation"], Violation)) for line in lines]

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for one in self.tellers:
            one.tell(call)
