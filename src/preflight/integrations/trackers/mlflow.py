"""MLflow: metrics under ``preflight/``, the verdict as a tag, alarms and the report as artifacts."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

import msgspec

from preflight.errors import UsageError
from preflight.integrations.needed import needed
from preflight.integrations.trackers._words import table
from preflight.monitor.live.tracking import Alarm
from preflight.vocabulary.report import Report


class MLflow:
    """Writes into a run, also after it has ended."""

    name = "MLflow"

    def __init__(self, run_id: str | None = None, tracking_uri: str | None = None) -> None:
        """Take a run's id; the active run where it is None.

        Raises:
            UsageError: The package mlflow is not installed, or no run is active.
        """
        mlflow = needed("mlflow", "mlflow")
        if run_id is None:
            run = mlflow.active_run()
            if run is None:
                raise UsageError("MLflow has no active run", "call mlflow.start_run() before, or give the run's id")
            run_id = run.info.run_id
        self._run = run_id
        self._client = mlflow.MlflowClient(tracking_uri)
        self._metric = mlflow.entities.Metric

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        """Write a point of each curve, all in one request."""
        now = int(time.time() * 1000)
        points = [self._metric(f"preflight/{name}", value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=points)

    def alarm(self, alarm: Alarm) -> None:
        """Name the newest in a tag; all of them stand in the table at the end."""
        self._client.set_tag(self._run, "preflight.alarm", f"step {alarm.step}: {alarm.sentence} ({alarm.place})")

    def end(self, step: int, report: Report, alarms: Sequence[Alarm]) -> None:
        """Write the verdict, all alarms as a table, and the report."""
        self._client.set_tag(self._run, "preflight.verdict", report.verdict)
        if alarms:
            self._client.log_text(self._run, table(alarms) + "\n", "preflight/alarms.md")
        text = msgspec.json.format(msgspec.json.encode(report)).decode()
        self._client.log_text(self._run, text, "preflight/report.json")


def in_use() -> MLflow | None:
    """Return the active run of the program."""
    module = sys.modules.get("mlflow")
    run = module.active_run() if module is not None else None
    return None if run is None else MLflow(run.info.run_id)
