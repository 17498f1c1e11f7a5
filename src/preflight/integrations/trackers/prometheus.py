"""Prometheus: gauges and counters that begin with ``preflight_``, at an address or in a file of the node exporter."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from preflight.integrations.needed import needed
from preflight.monitor.live.tracking import Alarm
from preflight.vocabulary.report import Report

STATES = ("running", "GO", "NO-GO", "UNKNOWN")
_GAUGES = {
    "overhead_percent": ("preflight_overhead_ratio", "Share of the time that recording and telling took, 0 to 1", 0.01),
    "step_seconds": ("preflight_step_duration_seconds", "Mean duration of the optimizer's last steps", 1.0),
    "memory_peak_bytes": ("preflight_memory_peak_bytes", "Most bytes that the allocator had given out", 1.0),
}


class Prometheus:
    """Keeps figures where Prometheus fetches them."""

    name = "Prometheus"

    def __init__(
        self,
        port: int | None = None,
        *,
        address: str = "127.0.0.1",
        textfile: str | os.PathLike[str] | None = None,
        registry: Any = None,
    ) -> None:
        """Take where they are fetched.

        Args:
            port: Serve them at this port until the training ends; 0 takes a free one.
            address: Where to listen.
            textfile: Write them to a file for the textfile collector of the node exporter; it ends with ``.prom``.
            registry: A registry that the program serves itself; a new one where a port or a file is given.

        Raises:
            UsageError: The package prometheus_client is not installed.
        """
        client = self._client = needed("prometheus_client", "prometheus")
        own = port is not None or textfile is not None
        self._registry = registry or (client.CollectorRegistry() if own else client.REGISTRY)
        self._textfile = textfile
        self._gauges: dict[str, Any] = {}
        self._steps_done = 0.0
        self._steps = _once(client.Counter, "preflight_steps", "Steps of the optimizer", self._registry)
        self._alarms = _once(
            client.Counter, "preflight_violations", "Alarms", self._registry, labelnames=["severity", "relation"]
        )
        self._first = _once(
            client.Gauge, "preflight_violation_first_step", "Step at which an alarm began", self._registry,
            labelnames=["severity", "relation", "place"],
        )  # fmt: skip
        self._verdict = _once(client.Enum, "preflight_verdict", "Verdict of the run", self._registry, states=[*STATES])
        self._server: Any = None
        self._address = address
        self.port = port

    def open(self) -> None:
        """Open the port, and write the file; every rank makes a tracker, and the first one opens it."""
        if self.port is not None:
            self._server, _ = self._client.start_http_server(self.port, addr=self._address, registry=self._registry)
            self.port = self._server.server_port
        self._steps_done = 0.0  # of this training; those of an earlier one are counted
        self._verdict.state("running")
        self._write()

    def figures(self, step: int, values: Mapping[str, float]) -> None:
        """Set the gauges."""
        for name, (metric, text, scale) in _GAUGES.items():
            if name in values:
                if name not in self._gauges:
                    self._gauges[name] = _once(self._client.Gauge, metric, text, self._registry)
                self._gauges[name].set(values[name] * scale)
        self._steps.inc(max(values.get("steps", 0.0) - self._steps_done, 0.0))
        self._steps_done = values.get("steps", self._steps_done)
        self._write()

    def alarm(self, alarm: Alarm) -> None:
        """Count it, and keep since when and where."""
        self._alarms.labels(alarm.severity, alarm.relation).inc()
        self._first.labels(alarm.severity, alarm.relation, alarm.place).set(alarm.step)
        self._write()

    def end(self, step: int, report: Report, alarms: Sequence[Alarm]) -> None:
        """Set the verdict; the file stays."""
        self._verdict.state(report.verdict)
        self._write()

    def close(self) -> None:
        """Close the port."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def _write(self) -> None:
        if self._textfile is not None:
            self._client.write_to_textfile(os.fspath(self._textfile), self._registry)


def _once(kind: Any, name: str, text: str, registry: Any, **more: Any) -> Any:
    """Make a metric, or take the one that an earlier training of this process has made."""
    known = getattr(registry, "_names_to_collectors", {}).get(name)
    return known if known is not None else kind(name, text, registry=registry, **more)


def in_use() -> Prometheus | None:
    """Return the program's own registry where it has metrics of its own."""
    module = sys.modules.get("prometheus_client")
    return None if module is None else Prometheus()
