"""How alarms are written where a tracker shows text."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.monitor.live.tracking import Alarm
from preflight.vocabulary.report import Verdict

COLUMNS = ("step", "severity", "relation", "sentence", "place", "code", "ranks")
VERDICTS: dict[Verdict, float] = {"NO-GO": 0.0, "GO": 1.0}
"""The verdict as a number for a curve; UNKNOWN has none."""


def rows(alarms: Sequence[Alarm]) -> list[list[str | int]]:
    """Return alarms as rows of a table."""
    return [
        [one.step, one.severity, one.relation, one.sentence, one.place, one.code, ", ".join(map(str, one.ranks))]
        for one in alarms
    ]


def markdown(alarm: Alarm) -> str:
    """Return an alarm as Markdown."""
    at = f"  \n{alarm.place}" if alarm.place else ""
    code = f": `{alarm.code}`" if alarm.code else ""
    return f"**{alarm.severity}** since step {alarm.step}: {alarm.sentence}{at}{code}"


def table(alarms: Sequence[Alarm]) -> str:
    """Return alarms as a Markdown table."""
    lines = [" | ".join(map(_cell, row)) for row in rows(alarms)]
    head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join([*head, *(f"| {line} |" for line in lines)])


def _cell(value: str | int) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
