"""Kernel logs: dmesg in all its forms, journalctl (short and JSON), syslog; what they tell becomes node events.

A card falls off the bus in one line or in three; an OOM kill is a table of processes, a line that says which limit it was, and
the line of the process: each becomes one event.
"""

from __future__ import annotations

import re
from collections import deque

import msgspec

from preflight.source.dumps.node_event import bus_id, make_event
from preflight.source.dumps.part import Part
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.log import LogFile, NodeEvent

KIND = "kernel"
TEXT = True

_DMESG = re.compile(
    rb"^(?:<\d+>|\w+ *:\w+ *: )?\[(?:\s*\d+\.\d{4,}|\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\](?:\[[\w ]+\])* "
)
_SYSLOG = re.compile(
    rb"^(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*) (?P<host>[\w.-]+) (?:kernel|[\w@.() -]+\[\d+\]): ?"
)
_LEVEL = re.compile(r"^(?:<\d+>|\w+ *:\w+ *: )")
_NAME = re.compile(r"(?i)dmesg|kern(?:el)?[._-]|kmsg|journal|syslog|(?:^|/)messages")
_KERNEL = (
    b"kernel:",
    b"NVRM",
    b"Linux version",
    b"pcieport",
    b"mlx5_core",
    b"EXT4-fs",
    b"oom-kill",
    b"Command line:",
    b"systemd[1]",
)
_CONSTRAINT = re.compile(
    r"oom-kill:constraint=CONSTRAINT_(\w+)(?:.*?oom_memcg=([^,\s]+))?(?:.*?task_memcg=([^,\s]+))?(?:.*?pid=(\d+))?"
)
_TABLE = re.compile(r"\[ *pid *\] +uid +tgid")
_ROW = re.compile(r"\[ *(\d+)\] +\d+ +(\d+) +(\d+) +(\d+) .*?(\S+)$")
_PAGE = 4096
# Of an error that is repeated on end so many lines are kept, of each kind and device.
_MOST = 50
_JSON_TIME = ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")


def looks_like(name: str, head: bytes) -> bool:
    """Tell a kernel log by the form of most of its first lines, and by its name or what the kernel says."""
    if head[:64].lstrip().startswith(b"{") and b'"__REALTIME_TIMESTAMP"' in head and b'"MESSAGE"' in head:
        return True
    first = [line for line in head[:1200].split(b"\n")[:4] if line.strip()]
    if not any(_DMESG.match(line) or _SYSLOG.match(line) for line in first):
        return False
    lines = [line for line in head.split(b"\n", 40)[:40] if line.strip()]
    if not lines:
        return False
    formed = sum(1 for line in lines if _DMESG.match(line) or _SYSLOG.match(line))
    if formed < 0.6 * len(lines):
        return False
    return bool(_NAME.search(name)) or any(word in head for word in _KERNEL)


def read(content: bytes, file: LogFile) -> Part:
    """Read the events of a kernel log."""
    if content.lstrip().startswith(b"{"):
        content, times = _from_json(content)
    else:
        times = None
    reader = _Reader(file)
    reader.read(content, times)
    hosts = reader.hosts
    who = file.who
    if who.node is None and len(hosts) == 1:
        who = msgspec.structs.replace(who, node=next(iter(hosts)))
    events = tuple(_with_node(event, who.node) for event in reader.events)
    seen = [event.hit.time for event in events if event.hit.time is not None]
    notes = tuple(
        f"{file.path}: {count} more of {kind} on {device or 'the node'}"
        for (kind, device), count in reader.left.items()
    )
    return Part(
        who=who,
        lines=content.count(b"\n") + (not content.endswith(b"\n")),
        first_time=min(seen, default=None),
        last_time=max(seen, default=None),
        events=events,
        notes=notes,
        problem="times are seconds since the node started" if reader.boot_only and events else None,
    )


def _with_node(event: NodeEvent, node: str | None) -> NodeEvent:
    return event if event.node is not None or node is None else msgspec.structs.replace(event, node=node)


class _Reader:
    def __init__(self, file: LogFile) -> None:
        from preflight.source.logs.clock import Clock

        self.file = file
        self.clock = Clock(file.modified)
        self.events: list[NodeEvent] = []
        self.hosts: set[str] = set()
        self.counts: dict[tuple[str, str | None], int] = {}
        self.left: dict[tuple[str, str | None], int] = {}
        self.boot_only = False
        self.limit: tuple[str, str] | None = None

    def read(self, content: bytes, times: list[float] | None) -> None:
        """Look at the lines that hold a known word, and at those of an OOM kill before it."""
        from preflight.catalog.kernel_events import literals

        place = number = 0
        for found in literals().finditer(content):
            if found.start() < place:
                continue
            begin = content.rfind(b"\n", 0, found.start()) + 1
            end = content.find(b"\n", found.start())
            end = len(content) if end < 0 else end
            number += content.count(b"\n", place, begin)
            self._line(content, begin, end, number + 1, times)
            place = end + 1
            number += 1

    def _line(self, content: bytes, begin: int, end: int, number: int, times: list[float] | None) -> None:
        from preflight.catalog.kernel_events import event_of

        text = content[begin:end].decode("utf-8", "replace").rstrip("\r")
        got = event_of(text)
        if got is None:
            return
        known, told = got
        if known.above is not None and "device" not in told:
            told |= _above(content, begin, known.above)
        device = bus_id(told.pop("device", None) or told.pop("pci", None) or told.get("port"))
        key = (known.kind, device)
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] > _MOST:
            self.left[key] = self.left.get(key, 0) + 1
            return
        node, time = self._head(text, number, times)
        values: dict[str, Scalar] = {**known.values, **_numbers(told)}
        if known.kind == "oom-kill":
            values |= _memory(content, begin, str(told.get("pid", "")))
        self.events.append(
            make_event(
                known.kind,
                told,
                file=self.file,
                line=number,
                offset=begin,
                text=text,
                node=node,
                time=time,
                device=device,
                fatal=known.fatal,
                meaning=known.meaning,
                values=values,
            )
        )

    def _head(self, text: str, number: int, times: list[float] | None) -> tuple[str | None, float | None]:
        from preflight.source.logs.prefixes import head_of

        host = _SYSLOG.match(text.encode())
        node = host.group("host").decode() if host else None
        if node:
            self.hosts.add(node)
        if times is not None:
            return node, times[number - 1]
        stamp = head_of(_LEVEL.sub("", text)).stamp
        if stamp is None:
            return node, None
        if stamp.missing == "boot":
            self.boot_only = True
            return node, None
        return node, self.clock.at(stamp)


def _numbers(told: dict[str, str]) -> dict[str, Scalar]:
    values: dict[str, Scalar] = {}
    for name, text in told.items():
        if name in ("pid", "code"):
            continue
        if name.endswith("_kb"):
            values[name[:-3] + "_bytes"] = int(text) * 1024
        else:
            values[name] = int(text) if text.isdigit() and len(text) < 16 else text[:300]
    return values


def _above(content: bytes, begin: int, regex: str) -> dict[str, str]:
    """Return what the three lines above tell; further lines of one message have no head of their own."""
    from preflight.catalog.kernel_events import compiled

    for line in reversed(_lines_before(content, begin, 3)):
        found = compiled(regex).search(line)
        if found:
            return {name: text for name, text in found.groupdict().items() if text is not None}
    return {}


def _lines_before(content: bytes, begin: int, count: int) -> list[str]:
    start = begin
    for _ in range(count):
        if start == 0:
            break
        start = content.rfind(b"\n", 0, start - 1) + 1
    return content[start:begin].decode("utf-8", "replace").splitlines()


def _memory(content: bytes, begin: int, pid: str) -> dict[str, Scalar]:
    """Return which limit it was and who held the memory, from the lines before an OOM kill."""
    values: dict[str, Scalar] = {}
    rows: deque[tuple[int, str, str]] = deque(maxlen=20_000)
    for line in _lines_before(content, begin, 3000)[::-1]:
        constraint = _CONSTRAINT.search(line)
        if constraint and "constraint" not in values and (constraint.group(4) or pid) == pid:
            values["constraint"] = constraint.group(1).lower()
            if constraint.group(2) or constraint.group(3):
                values["cgroup"] = constraint.group(2) or constraint.group(3)
        row = _ROW.search(line)
        if row:
            rows.append((int(row.group(4)) * _PAGE, row.group(5), row.group(1)))
        elif _TABLE.search(line) or "Killed process" in line or "Kill process" in line:
            break
    if rows:
        largest = sorted(rows, reverse=True)
        same = [size for size, name, _ in rows if name == largest[0][1]]
        values["processes"] = len(rows)
        values["largest"] = "; ".join(f"{name} {number}: {size / 2**30:.1f} GiB" for size, name, number in largest[:3])
        values["same_name"] = f"{len(same)} of {largest[0][1]}: {sum(same) / 2**30:.1f} GiB"
    return values


def _from_json(content: bytes) -> tuple[bytes, list[float] | None]:
    """Turn the journal's JSON lines into the lines of its short form, with their times."""
    import json

    lines: list[str] = []
    times: list[float] = []
    for raw in content.splitlines():
        try:
            entry = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict):
            continue
        message = entry.get("MESSAGE")
        if isinstance(message, list):  # the journal writes what is no UTF-8 as bytes
            message = bytes(byte for byte in message if isinstance(byte, int) and 0 <= byte < 256).decode(
                "utf-8", "replace"
            )
        stamp = next((entry[key] for key in _JSON_TIME if str(entry.get(key, "")).isdigit()), None)
        host = str(entry.get("_HOSTNAME") or "-")
        for line in str(message or "").splitlines():
            lines.append(f"Jan  1 00:00:00 {host} {entry.get('SYSLOG_IDENTIFIER') or 'kernel'}: {line}")
            times.append(int(stamp) / 1e6 if stamp is not None else 0.0)
    return "\n".join(lines).encode(), times
