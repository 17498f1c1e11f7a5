"""Says of a line of one file who wrote it and when, and makes it into a hit."""

from __future__ import annotations

import re

from preflight.source.logs.clock import Clock
from preflight.source.logs.matching import Value
from preflight.source.logs.pages import Line, Page, merged
from preflight.source.logs.reduced import Process
from preflight.source.logs.times import stamp_at
from preflight.vocabulary.log import Hit, LogFile, Who

CUT = 2000
_GAP = 1.0
_SAID = re.compile(r"\bCANCELLED AT (\d{4}-\d\d-\d\dT[\d:]+)")
"""A scheduler's last word bears its time within it."""


class Witness:
    """What is known of one file, its clock and its processes.

    Attributes:
        file: The file by its name.
        clock: Its times.
        processes: Ranks and the numbers of their processes, as its lines tell them.
    """

    def __init__(self, file: LogFile) -> None:
        """Begin with a file."""
        self.file = file
        self.clock = Clock(file.modified)
        self.processes: dict[Who, Process] = {}

    def who(self, line: Line) -> Who:
        """Return who wrote a line."""
        return merged(line.head.who, self.file.who)

    def time(self, page: Page, line: Line) -> tuple[float | None, float]:
        """Return when a line was written, and half of the interval in which that lies."""
        time, error, _ = self._bounded(page, line)
        return time, error

    def _bounded(self, page: Page, line: Line) -> tuple[float | None, float, bool]:
        """Return that, and whether the interval is open: no time stands near behind a line that has none itself."""
        if line.head.stamp is not None:
            return self.clock.at(line.head.stamp), line.head.stamp.exact, False
        said = _SAID.search(line.text)
        stamp = stamp_at(said[1]) if said else None
        if stamp is not None:
            return self.clock.at(stamp), stamp.exact, False
        before = page.stamp_before(line.start)
        after = page.stamp_after(line.end)
        earliest = self.clock.at(before) if before else None
        latest = self.clock.at(after) if after else None
        if earliest is None:
            return (None, 0.0, False) if latest is None else (latest, _GAP, False)
        if latest is None:
            # The date of the file is no bound: a copy, a checkout or an unpacked archive is younger than its lines.
            return earliest, _GAP, True
        if latest < earliest:
            earliest, latest = latest, earliest
        return (earliest + latest) / 2, (latest - earliest) / 2, False

    def process(self, who: Who, among: int | None = None) -> None:
        """Keep the rank and the number of a process; what another line tells of a rank of the run is kept before that of a group."""
        known = self.processes.get(who)
        if known is None or (known.among is not None and (among is None or among > known.among)):
            self.processes[who] = Process(who, among)

    def hit(
        self,
        page: Page,
        line: Line,
        signature: str = "",
        fields: dict[str, Value] | None = None,
        below: tuple[str, ...] = (),
        about: Who | None = None,
    ) -> Hit:
        """Return a line as a hit."""
        time, error, is_open = self._bounded(page, line)
        who = self.who(line)
        if who.rank is not None and who.pid is not None:
            self.process(who)
        return Hit(
            signature=signature,
            file=self.file.index,
            line=line.number,
            offset=page.offset + line.start,
            text=line.text[:CUT],
            below=below,
            fields=fields or {},
            who=who,
            about=about,
            time=time,
            time_error=error,
            time_open=is_open,
        )
