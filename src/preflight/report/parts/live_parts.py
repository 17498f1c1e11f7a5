"""What was seen of a running job and of the machine under it, as sections: what Markdown and the page show of it."""

from __future__ import annotations

from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.compared import Part
from preflight.report.parts.live_text import how_many_live, in_unit, measured_text
from preflight.vocabulary.live import Measurement
from preflight.vocabulary.report import Report


def live_parts(report: Report) -> list[Part]:
    """Return sections of ranks, measurements and differences; nothing where there is none."""
    found: list[Part] = []
    rows: tuple[tuple[str, ...], ...]
    lost = [pulse for pulse in report.pulses if pulse.lost]
    if report.pulses:
        rows = tuple((str(one.rank), one.state, clean(one.node or "-"), one_line(one.reason)) for one in lost)
        title = f"Ranks: {how_many_live(report.pulses)}"
        found.append(Part(title, () if rows else ("All of them live.",), ("rank", "state", "node", "why"), rows))
    if report.measurements:
        rows = tuple(_measured(one) for one in report.measurements)
        titles = ("probe", "what", "rank", "median", "interval of 95 %", "repeats")
        found.append(Part("Measurements", (), titles, rows))
    if report.differences:
        rows = tuple(
            (
                one_line(one.key),
                f"{one_line(one.usual)} ({one.usual_ranks} {'rank' if one.usual_ranks == 1 else 'ranks'})",
                "; ".join(f"{one_line(value)} on {', '.join(map(str, ranks))}" for value, ranks in one.unusual.items()),
            )
            for one in report.differences
        )
        found.append(Part("Differences between ranks", (), ("what", "usual", "unusual, on ranks"), rows))
    return found


def _measured(one: Measurement) -> tuple[str, ...]:
    """Return the row of a measurement; what has no value says why in the place of it."""
    head = (clean(one.probe), clean(one.name), "-" if one.rank is None else str(one.rank))
    if one.value is None or one.outcome != "done":
        return (*head, measured_text(one), "", "")
    known = one.low is not None and one.high is not None
    between = f"{in_unit(one.low or 0.0, one.unit)} to {in_unit(one.high or 0.0, one.unit)}" if known else "-"
    said = in_unit(one.value, one.unit) + (f"; {one_line(one.reason)}" if one.reason else "")
    return (*head, said, between, str(one.repeats))
