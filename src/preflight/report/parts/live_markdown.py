"""What was seen of a running job and of the machine under it, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from preflight.report.parts.live_text import measured_text
from preflight.vocabulary.report import Report

Table = Callable[[tuple[str, ...], Sequence[tuple[str, ...]]], list[str]]


def live_lines(report: Report, level: str, escape: Callable[[str], str], table: Table) -> list[str]:
    """Return tables of ranks that are lost, of measurements and of differences; nothing where there is none."""
    lines: list[str] = []
    lost = [pulse for pulse in report.pulses if pulse.lost]
    if report.pulses:
        lines += [f"{level}# Ranks: {len(report.pulses) - len(lost)} of {len(report.pulses)} live", ""]
    if lost:
        lines += table(
            ("rank", "state", "node", "why"),
            [(str(one.rank), one.state, escape(one.node or "-"), escape(one.reason)) for one in lost],
        )
    if report.measurements:
        lines += [f"{level}# Measurements", ""]
        lines += table(
            ("probe", "what", "rank", "median and interval of 95 %"),
            [
                (
                    escape(one.probe),
                    escape(one.name),
                    "-" if one.rank is None else str(one.rank),
                    escape(measured_text(one)),
                )
                for one in report.measurements
            ],
        )
    if report.differences:
        lines += [f"{level}# Differences between ranks", ""]
        lines += table(
            ("what", "usual", "unusual"),
            [
                (escape(one.key), escape(one.usual),
                 escape("; ".join(f"{value} on {', '.join(map(str, ranks))}" for value, ranks in one.unusual.items())))
                for one in report.differences
            ],
        )  # fmt: skip
    return lines
