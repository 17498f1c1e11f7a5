"""A run that is watched while it goes on: alarms on stderr as they come, and how it ended in a few lines."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from preflight.monitor.follow import Follower
from preflight.monitor.live.alerts import Told
from preflight.monitor.live.control import Asking
from preflight.monitor.live.remarks import write
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import Report

EVERY = 0.2
"""Seconds between two looks at a growing trace."""
WIDTH = 100
_UNDONE = {"checkpoint": "no checkpoint was asked for", "stop": "nothing was left to stop"}


class Live:
    """Judges what comes, and tells of every group of violations once, when it begins."""

    def __init__(
        self,
        follower: Follower,
        told: Sequence[Told] = (),
        color: bool = False,
        asking: Asking | None = None,
        wanted: str = "warn",
    ) -> None:
        """Take what is followed, who is told besides the terminal, and what is asked of the program at the first error."""
        self.follower = follower
        self._told = told
        self._color = color
        self._asking = asking
        self._wanted: str | None = wanted
        self._known: set[tuple[int, int]] = set()
        self.alarmed = False
        """Whether an error was told."""

    def look(self, ended: bool = False) -> None:
        """Judge what has come and tell of alarms that are new."""
        if self._asking is not None and (said := self._asking.look()) is not None:
            remark(said)
        if not self.follower.take(ended):
            return
        for number, team in enumerate(self.follower.teams):
            groups: dict[int, list[Violation]] = {}
            for one in team.engine.violations():
                groups.setdefault(one.group, []).append(one)
            for name, group in groups.items():
                if (number, name) not in self._known:
                    self._known.add((number, name))
                    self._alarm(group, ended)

    def close(self) -> list[str]:
        """Finish with those who are told; what did not reach them."""
        return [problem for one in self._told if (problem := one.close()) is not None]

    def _alarm(self, group: Sequence[Violation], ended: bool) -> None:
        rest = f"preflight monitor check {shlex.quote(str(self.follower.folder.path))} --verbose"
        write(alarm_text(len(self._known), group, self._color, rest))
        self.alarmed = self.alarmed or any(one.decides for one in group)
        for one in self._told:
            one.tell(group)
        if self._asking is not None and any(one.decides for one in group):
            if ended and self._wanted is not None:
                remark(f"the program had ended before the error was seen: {_UNDONE[self._wanted]}")
            elif self._wanted == "checkpoint":
                self._asking.ask("checkpoint")
                remark("every rank is asked for a checkpoint")
            elif self._wanted == "stop":
                self._asking.ask("stop")
                remark("the program is asked to stop")
            self._wanted = None  # once is enough


def alarm_text(number: int, group: Sequence[Violation], color: bool, rest: str) -> str:
    """Return an alarm as it stands on a terminal; ``rest`` is the command that shows what it only counts."""
    from preflight.check.files.source_lines import SourceLines
    from preflight.monitor.outcome import with_evidence
    from preflight.report.parts.alarm_text import alarm
    from preflight.report.parts.options import Options
    from preflight.report.parts.paint import Canvas

    canvas = Canvas(Options(width=_columns(), color=color, rest=rest))
    group = with_evidence(group)
    path = group[0].location.path
    text = SourceLines().text(path) if path is not None else None
    canvas.write("", first=f"preflight monitor: alarm {number}", first_style="red")
    alarm(canvas, "", group, {path: text} if path is not None and text is not None else {})
    return canvas.text()


def remark(text: str) -> None:
    """Say one line on stderr."""
    from preflight.report.parts.clean import one_line

    write(f"preflight monitor: {one_line(text)}\n")


def closing(report: Report, folder: str, quiet: bool) -> None:
    """Say how a run ended: the verdict, what was judged, and where the rest is."""
    from preflight.report.parts.sentences import advice, counts

    if quiet and report.verdict == "GO":
        return
    found = f"{counts(report, always=())}; " if report.told else ""
    remark(f"{report.verdict}  {found}{advice(report)}")
    if not quiet:
        for note in report.notes:
            remark(note)
        remark(f"the trace is in {folder}; preflight monitor check {shlex.quote(folder)} reports on it")


def colored(no_color: bool) -> bool:
    """Whether stderr may be coloured."""
    terminal = bool(sys.stderr is not None and sys.stderr.isatty())
    return terminal and not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _columns() -> int:
    import shutil

    if sys.stderr is None or not sys.stderr.isatty():
        return WIDTH
    return max(shutil.get_terminal_size((WIDTH, 24)).columns, 60)


def told_of(given: dict[str, Any], run: str = "") -> list[Told]:
    """Who is to be told of alarms besides the terminal."""
    from preflight.monitor.live.alerts import LinesFile, Webhook

    told: list[Told] = []
    if given.get("alerts"):
        told.append(LinesFile(given["alerts"], run))
    if given.get("webhook"):
        told.append(Webhook(given["webhook"], run))
    return told


def telling(command: Any) -> Any:
    """Add the options that say who is told of alarms."""
    options = (
        click.option("--alerts", metavar="FILE", help="Append every alarm to a file, as a line of JSON."),
        click.option("--webhook", metavar="URL", help="Post every alarm as JSON to an address."),
    )
    for option in reversed(options):
        command = option(command)
    return command


__all__ = ["EVERY", "Live", "alarm_text", "closing", "colored", "remark", "telling", "told_of"]
