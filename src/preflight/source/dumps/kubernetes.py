"""What Kubernetes tells of pods and nodes: ``kubectl get events`` and ``get pods`` (table or JSON) and ``describe pod``."""

from __future__ import annotations

import re
from typing import Any

from preflight.source.dumps.part import Part
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.log import Ending, Hit, LogFile, NodeEvent, Who

KIND = "scheduler"
TEXT = True

_ORDINAL = re.compile(r"-(?:worker|master|launcher|node)?-?(\d+)$")
# Reasons that tell of trouble, and what they stand for; events of type Warning are told whatever their reason.
_REASONS = {
    "OOMKilling": "The memory of a node or a container was used up",
    "OOMKilled": "The memory of a container was used up",
    "Evicted": "A pod was put out of its node",
    "Preempted": "A pod had to make room for another",
    "Preempting": "A pod had to make room for another",
    "Killing": "A container is being stopped",
    "NodeNotReady": "A node does not answer",
    "TaintManagerEviction": "A pod is put out of a node that is being emptied",
    "FailedScheduling": "No node has room for a pod",
    "BackOff": "A container ends again and again",
    "FailedMount": "A volume could not be mounted",
    "Error": "A container ended with an error",
    "Unhealthy": "A probe of a container failed",
}
_FATAL = frozenset({"OOMKilling", "OOMKilled", "Evicted", "Preempted", "NodeNotReady", "TaintManagerEviction", "Error"})
_PLAIN = frozenset({"Scheduled", "Pulled", "Pulling", "Created", "Started", "SuccessfulCreate", "Completed"})


def looks_like(name: str, head: bytes) -> bool:
    """Tell by the heads of the tables, the keys of the JSON, or the first words of a description."""
    start = head.lstrip()
    if start[:1] == b"{":
        return b'"apiVersion"' in head and (b'"items"' in head or b'"kind"' in head)
    line = start[:400].split(b"\n", 1)[0]
    if not (b"REASON" in line or b"STATUS" in line or start.startswith(b"Name:")):
        return False
    first = line.split()
    if {b"REASON", b"OBJECT", b"MESSAGE"} <= set(first):
        return True
    if {b"NAME", b"READY", b"STATUS", b"RESTARTS"} <= set(first):
        return True
    return start.startswith(b"Name:") and b"\nNamespace:" in head and (b"\nContainers:" in head or b"\nNode:" in head)


def read(content: bytes, file: LogFile) -> Part:
    """Read what happened to pods and nodes."""
    text = content.decode("utf-8", "replace")
    reader = _Reader(file)
    problem = None
    if text.lstrip()[:1] == "{":
        problem = reader.json(text)
    elif text.lstrip().startswith("Name:"):
        reader.description(text.splitlines())
    else:
        reader.table(text.splitlines())
    times = [event.hit.time for event in reader.events if event.hit.time is not None]
    return Part(
        lines=text.count("\n") + 1,
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        events=tuple(reader.events),
        endings=tuple(reader.endings),
        problem=problem,
    )


def _time(text: Any) -> float | None:
    if not isinstance(text, str):
        return None
    from preflight.source.logs.clock import Clock
    from preflight.source.logs.times import stamp_at

    for place in (0, text.find(",") + 2):  # Mon, 02 Jan 2006 15:04:05 -0700 in descriptions
        stamp = stamp_at(text, place)
        if stamp is not None and not stamp.missing:
            return Clock().at(stamp)
    return None


class _Reader:
    def __init__(self, file: LogFile) -> None:
        self.file = file
        self.events: list[NodeEvent] = []
        self.endings: list[Ending] = []

    def event(self, reason: str, kind: str, name: str, message: str, *, line: int, warning: bool, node: str | None = None,
              time: float | None = None, count: int = 1) -> None:  # fmt: skip
        """Keep an event that tells of trouble."""
        if reason in _PLAIN or not (warning or reason in _REASONS):
            return
        text = f"{reason} {kind}/{name}: {message}"
        where = node or (name if kind.lower() == "node" else None)
        hit = Hit(
            signature="node.pod-state",
            file=self.file.index,
            line=line,
            offset=0,
            text=text[:500],
            who=Who(node=where),
            time=time,
            times_seen=count,
        )
        values: dict[str, Scalar] = {"reason": reason, "object": f"{kind.lower()}/{name}", "count": count}
        if kind.lower() == "pod":
            values["pod"] = name
            ordinal = _ORDINAL.search(name)
            if ordinal:
                values["ordinal"] = int(ordinal.group(1))
        meaning = _REASONS.get(reason, f"Kubernetes warns: {reason}")
        state = "node-state" if kind.lower() == "node" else "pod-state"
        self.events.append(
            NodeEvent(kind=state, hit=hit, node=where, fatal=reason in _FATAL, meaning=meaning, values=values)
        )

    def table(self, lines: list[str]) -> None:
        """Read a table by the places of its heads."""
        head = next((line for line in lines if line.strip()), "")
        columns = [(found.group(0), found.start()) for found in re.finditer(r"\S+(?: \S+)*", head)]
        ends = [start for _, start in columns[1:]] + [None]
        for number, line in enumerate(lines, 1):
            if line == head or not line.strip():
                continue
            row = {name: line[start:end].strip() for (name, start), end in zip(columns, ends, strict=True)}
            if "REASON" in row:
                kind, _, name = row.get("OBJECT", "").partition("/")
                self.event(
                    row["REASON"], kind, name, row.get("MESSAGE", ""), line=number, warning=row.get("TYPE") == "Warning"
                )
            else:
                status = row.get("STATUS", "").rpartition(":")[2]
                node = row.get("NODE") if row.get("NODE") not in ("<none>", "") else None
                if status not in ("Running", "Completed", "Pending", "ContainerCreating", "Terminating"):
                    self.event(
                        status,
                        "pod",
                        row.get("NAME", ""),
                        f"restarts {row.get('RESTARTS', '?')}",
                        line=number,
                        warning=True,
                        node=node,
                    )

    def json(self, text: str) -> str | None:
        """Read events and pods as the API gives them."""
        import json

        problem = None
        try:
            loaded = json.loads(text)
        except (ValueError, RecursionError) as error:
            from preflight.source.dumps.cut_json import salvage

            loaded, problem = salvage(text), f"not whole JSON: {error}"
        if not isinstance(loaded, dict):
            return problem or "nothing in it"
        items = loaded.get("items")
        for item in items if isinstance(items, list) else [loaded]:
            if isinstance(item, dict):
                self._item(item)
        return problem

    def _item(self, item: dict[str, Any]) -> None:
        about = item.get("involvedObject") or item.get("regarding")
        if isinstance(about, dict):
            series = item.get("series")
            count = item.get("count") or (series.get("count") if isinstance(series, dict) else 1)
            source = item.get("source")
            self.event(
                str(item.get("reason", "")),
                str(about.get("kind", "")),
                str(about.get("name", "")),
                str(item.get("message") or item.get("note") or ""),
                line=1,
                warning=item.get("type") == "Warning",
                node=source.get("host") if isinstance(source, dict) else None,
                time=_time(item.get("lastTimestamp") or item.get("eventTime") or item.get("firstTimestamp")),
                count=count if isinstance(count, int) else 1,
            )
            return
        status = item.get("status")
        meta, spec = item.get("metadata"), item.get("spec")
        if not isinstance(status, dict) or not isinstance(meta, dict):
            return
        name = str(meta.get("name", ""))
        node = spec.get("nodeName") if isinstance(spec, dict) else None
        if status.get("reason"):
            self.event(
                str(status["reason"]), "pod", name, str(status.get("message", "")), line=1, warning=True, node=node
            )
        containers = status.get("containerStatuses")
        for one in containers if isinstance(containers, list) else ():
            for word in ("state", "lastState"):
                ended = (
                    one.get(word, {}).get("terminated")
                    if isinstance(one, dict) and isinstance(one.get(word), dict)
                    else None
                )
                if isinstance(ended, dict):
                    self.ended(
                        name,
                        node,
                        ended.get("exitCode"),
                        str(ended.get("reason", "")),
                        _time(ended.get("finishedAt")),
                        1,
                    )

    def ended(self, pod: str, node: str | None, code: Any, reason: str, time: float | None, line: int) -> None:
        """Keep how a container ended."""
        if not isinstance(code, int) or isinstance(code, bool):
            return
        # A shell tells a signal as 128 and its number.
        number = -(code - 128) if 128 < code < 160 else code
        ending = Ending(about=Who(node=node), code=number, teller="kubernetes", time=time, time_error=1.0,
                        message=f"{pod}: {reason}".strip(": "), file=self.file.index, line=line)  # fmt: skip
        self.endings.append(ending)
        if code != 0 or reason in _FATAL:  # a container may end with 0 although its memory was used up
            self.event(
                reason or "Error", "pod", pod, f"exit code {code}", line=line, warning=True, node=node, time=time
            )

    def description(self, lines: list[str]) -> None:
        """Read ``describe pod``: pairs by indentation, then a table of events."""
        name = node = None
        reason = ""
        code: int | None = None
        inside_events = False
        for number, line in enumerate(lines, 1):
            key, _, value = line.strip().partition(":")
            value = value.strip()
            if line.startswith("Name:"):
                name = value
            elif line.startswith("Node:"):
                node = value.partition("/")[0] or None
            elif line.startswith("Events:"):
                inside_events = True
            elif inside_events:
                words = line.split(None, 3)
                if len(words) == 4 and words[0] in ("Normal", "Warning"):
                    message = re.sub(r"^.*?(?:\(x\d+ over \S+\)\s+|\s{2,})\S+\s+", "", words[3])
                    self.event(
                        words[1], "pod", name or "", message, line=number, warning=words[0] == "Warning", node=node
                    )
            elif key == "Reason":
                reason = value
            elif key == "Exit Code" and value.isdigit():
                code = int(value)
            elif key == "Finished" and code is not None:
                self.ended(name or "", node, code, reason, _time(value), number)
                code = None
