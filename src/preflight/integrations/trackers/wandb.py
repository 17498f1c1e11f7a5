"""Weights & Biases: curves under ``preflight/`` over the program's optimizer steps, alarms as a table, the verdict in the summary."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from preflight.errors import UsageError
from preflight.integrations.needed import needed
from preflight.integrations.trackers._words import COLUMNS, rows
from preflight.monitor.live.tracking import Alarm
from preflight.vocabulary.report import Report

STEP = "preflight/step"
TITLE = 63
"""The title of an alert has fewer than 64 characters."""


class WandB:
    """Writes into a run."""

    name = "W&B"

    def __init__(self, run: Any = None) -> None:
        """Take a run; the one that ``wandb.init`` began where it is None.

        Raises:
            UsageError: The package wandb is not installed, or no run has begun.
        """
        wandb = needed("wandb", "wandb")
        run = wandb.run if run is None else run
        if run is None:
            raise UsageError("W&B has no run", "call wandb.init() before, or give the run")
        self._wandb, self._run = wandb, run

    def open(self) -> None:
        """Say by which steps the curves go; every rank makes a tracker, and the first one opens it."""
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("preflight/*", step_metric=STEP)

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        """Write a point of each curve; W&B's own count of steps stays the program's."""
        self._log(step, {f"preflight/{name}": value for name, value in values.items()})

    def alarm(self, alarm: Alarm) -> None:
        """Raise W&B's own alert, which tells people as they have set it."""
        place = f", {alarm.place}: {alarm.code}" if alarm.place else ""
        text = f"{alarm.sentence}\nsince step {alarm.step}{place}"
        title = alarm.sentence if len(alarm.sentence) <= TITLE else alarm.sentence[: TITLE - 3].rstrip() + "..."
        level = self._wandb.AlertLevel.ERROR if alarm.severity == "error" else self._wandb.AlertLevel.WARN
        self._run.alert(title, text, level=level)

    def end(self, step: int, report: Report, alarms: Sequence[Alarm]) -> None:
        """Write the verdict into the summary, and all alarms as a table."""
        if alarms:
            self._log(step, {"preflight/alarms": self._wandb.Table(columns=list(COLUMNS), data=rows(alarms))})
        self._run.summary["preflight/verdict"] = report.verdict
        self._run.summary["preflight/violations"] = len(alarms)

    def _log(self, step: int, values: Mapping[str, Any]) -> None:
        # Not committed: it goes with what the program logs next, or with the end of the run.
        self._run.log({STEP: step, **values}, commit=False)


def in_use() -> WandB | None:
    """Return the run that the program has begun."""
    module = sys.modules.get("wandb")
    run = getattr(module, "run", None)
    return None if run is None else WandB(run)
