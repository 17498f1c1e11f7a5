"""Reads the logs of a run: opening, layout, times, signatures, tracebacks, ends, steps, and what nothing explains."""

from preflight.source.logs.read import read_logs

__all__ = ["read_logs"]
