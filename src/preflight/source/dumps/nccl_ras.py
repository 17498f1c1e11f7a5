"""What NCCL's RAS subsystem answers (``ncclras``, ``nc localhost 28028``): who is missing, dead or behind.

A rank that is one operation behind in one answer may only have been asked earlier; that is said with the event.
"""

from __future__ import annotations

import re

import msgspec

from preflight.source.dumps.part import Part
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.log import Environment, Flight, Hit, LogFile, NodeEvent, Who

KIND = "ras"
TEXT = True

_COMMUNICATOR = re.compile(r"^#(\d+-\d+) \((\w+)\) (\w+)")
_SECTION = re.compile(r"^(INCOMPLETE|DEAD|TIMEOUT|MISMATCH)\b")
_PROCESS = re.compile(r"^\s*Process (\d+) on node (\S+) managing (GPUs? \S+)")
_RANK = re.compile(
    r"^\s*Rank (\d+)(?: has (?:launched up to operation (\d+)|(not launched any operations)|status (\w+)))?\s*-- (GPU \S+) managed by process (\d+) on node (\S+)"
)
_UP_TO = re.compile(r"^\s*(\d+) ranks have (?:launched up to operation (\d+)|(not launched any operations))")
_MISSING = re.compile(r"^\s*The missing ranks?: ([\d, -]+)")
_WHAT = re.compile(r"^\s*Communicator ranks have different (.+?)(?: counts)?\s*$")
_VERSION = re.compile(r"^NCCL version (\S+)(?: compiled with CUDA (\S+))?")
_WORLD = re.compile(r"^\s+(\d+)\s+\d+(?:-\d+)?\s+\d+(?:-\d+)?\s+\d+\s+(\d+)\s*$")
_MEANING = {
    "DEAD": "A process does not answer any more and was given up",
    "INCOMPLETE": "A process does not answer",
    "MISMATCH": "A rank has made fewer collective calls than others",
}


def looks_like(name: str, head: bytes) -> bool:
    """Tell an answer by its two tables."""
    return (
        b"Communicators..." in head
        and b"Job summary" in head
        or (b"Ranks    Status  Errors" in head and b"in group" in head)
    )


def read(content: bytes, file: LogFile) -> Part:
    """Read one answer, or several one after the other: the last one counts for how far the ranks are."""
    reader = _Reader(file)
    lines = content.decode("utf-8", "replace").splitlines()
    offset = 0
    for number, line in enumerate(lines, 1):
        reader.take(line, number, offset)
        offset += len(line.encode()) + 1
    notes = []
    if any(event.kind == "ras-mismatch" for event in reader.events):
        notes.append(
            "RAS asks the ranks one after the other: who is one call behind in one answer and not in the next is not stuck"
        )
    return Part(
        lines=len(lines),
        world_size=reader.world,
        events=tuple(reader.events),
        flights=tuple(reader.flights()),
        environments=(Environment(file=file.index, source="nccl-ras", values=reader.versions),)
        if reader.versions
        else (),
        notes=tuple(notes),
        problem=None if reader.complete else "it is cut off before the errors",
    )


class _Reader:
    def __init__(self, file: LogFile) -> None:
        self.file = file
        self.events: list[NodeEvent] = []
        self.behind: dict[int, tuple[Who, dict[str, int]]] = {}
        self.versions: dict[str, str] = {}
        self.world: int | None = None
        self.complete = False
        self.section = self.group = self.what = ""
        self.count: int | None = None
        self.most: dict[str, int] = {}

    def take(self, line: str, number: int, offset: int) -> None:
        if not line.strip():
            return
        if line.startswith(("Errors", "Warnings")):
            self.complete = True
        self._heading(line)
        process = _PROCESS.match(line)
        if process:
            who = Who(node=process.group(2), pid=int(process.group(1)))
            return self._event(line, number, offset, who, process.group(3), {})
        missing = _MISSING.match(line)
        if missing:
            for rank in map(int, re.findall(r"\d+", missing.group(1))):
                self._event(line, number, offset, Who(rank=rank), None, {"communicator": self.group})
            return
        rank_line = _RANK.match(line)
        if rank_line:
            self._rank(rank_line, line, number, offset)

    def _heading(self, line: str) -> None:
        version, world = _VERSION.match(line), _WORLD.match(line)
        communicator, section = _COMMUNICATOR.match(line), _SECTION.match(line)
        what, up_to = _WHAT.match(line), _UP_TO.match(line)
        if version:
            self.versions = {"nccl": version.group(1), **({"cuda": version.group(2)} if version.group(2) else {})}
        elif world and not self.section:
            self.world = int(world.group(2))
        elif communicator:
            self.group, self.section, self.count = communicator.group(2), communicator.group(3), None
        elif section:
            self.group, self.section, self.count = "", section.group(1), None
        elif what:
            self.what = what.group(1)
        elif up_to:
            self.count = int(up_to.group(2) or 0)
            self.most[self.group] = max(self.count, self.most.get(self.group, 0))

    def _rank(self, found: re.Match[str], line: str, number: int, offset: int) -> None:
        who = Who(rank=int(found.group(1)), node=found.group(7), pid=int(found.group(6)))
        count = int(found.group(2)) if found.group(2) else 0 if found.group(3) else self.count
        values: dict[str, Scalar] = {"communicator": self.group}
        if self.section == "MISMATCH":
            values["differs_in"] = self.what
            if found.group(4):
                values["status"] = found.group(4)
            elif count is not None:
                values["operation"] = count
                values["others"] = self.most.get(self.group, 0)
                numbers = self.behind.setdefault(who.rank or 0, (who, {}))[1]
                numbers[self.group] = count
                if count >= self.most.get(self.group, 0):
                    return  # not behind: it is listed because its group is small
        self._event(line, number, offset, who, found.group(5), values)

    def _event(
        self, line: str, number: int, offset: int, who: Who, device: str | None, values: dict[str, Scalar]
    ) -> None:
        hit = Hit(
            signature=f"node.ras-{self.section.lower()}",
            file=self.file.index,
            line=number,
            offset=offset,
            text=line,
            who=who,
        )
        values = {**values, **({"rank": who.rank} if who.rank is not None else {})}
        self.events.append(
            NodeEvent(
                kind=f"ras-{self.section.lower()}",
                hit=hit,
                node=who.node,
                device=device.lower() if device else None,
                pid=who.pid,
                fatal=self.section == "DEAD",
                meaning=_MEANING.get(self.section, self.section.lower()),
                values=values,
            )
        )

    def flights(self) -> list[Flight]:
        """Return how far the ranks are of which the answer tells; the others it only counts."""
        return [
            Flight(
                who=msgspec.structs.replace(who),
                file=self.file.index,
                enqueued=numbers,
                wrapped=True,
                backend="nccl-ras",
            )
            for who, numbers in self.behind.values()
        ]
