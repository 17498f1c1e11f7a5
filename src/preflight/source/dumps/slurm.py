"""What Slurm tells of jobs and nodes: ``sacct`` (any separator), ``squeue``, ``sinfo``, ``scontrol show job`` and ``show node``."""

from __future__ import annotations

import re

from preflight.source.dumps.part import Part
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.log import Ending, Hit, LogFile, NodeEvent, Who

KIND = "scheduler"
TEXT = True

_KEY = re.compile(r"(?:^|\s)([A-Z][\w:/]*)=(.*?)(?=\s+[A-Z][\w:/]*=|$)")
_HEADS = (b"JobID", b"JOBID", b"JobId=", b"NodeName=", b"NODELIST", b"JobIDRaw")
_SEPARATORS = ("|", ",", "\t")
# What the last state of a job or a step means; the ones that did not end well.
_BAD = {
    "FAILED": "A job or a step ended with an error",
    "TIMEOUT": "A job reached its time limit",
    "OUT_OF_MEMORY": "A job or a step used up its memory",
    "OUT_OF_ME+": "A job or a step used up its memory",
    "NODE_FAIL": "A node of the job failed",
    "PREEMPTED": "A job had to make room for another",
    "CANCELLED": "A job was cancelled",
    "CANCELLED+": "A job was cancelled",
    "BOOT_FAIL": "A node of the job did not start",
    "DEADLINE": "A job passed its deadline",
    "REQUEUED": "A job was put back into the queue",
}
_NODE_BAD = re.compile(r"(?i)\b(?:DOWN|FAIL|DRAIN\w*|NOT_RESPONDING|ERROR|POWER\w*)")

_OUT_OF_MEMORY = 125
"""What Slurm tells in place of a signal of a step that the kernel ended for its memory (``SIG_OOM``)."""


def looks_like(name: str, head: bytes) -> bool:
    """Tell by the words that head a table, or by those that begin a record."""
    first = head.lstrip().split(b"\n", 1)[0]
    if first.startswith((b"JobId=", b"NodeName=")):
        return True
    if not any(word in first for word in _HEADS):
        return False
    words = set(re.split(rb"[\s|,]+", first.strip()))
    return (
        {b"JobID", b"State"} <= words
        or {b"JOBID", b"PARTITION"} <= words
        or {b"PARTITION", b"AVAIL"} <= words
        or {b"JobID", b"ExitCode"} <= words
    )


def read(content: bytes, file: LogFile) -> Part:
    """Read jobs, steps and nodes that did not end well, and the exit codes."""
    lines = content.decode("utf-8", "replace").splitlines()
    records = _records(lines)
    events: list[NodeEvent] = []
    endings: list[Ending] = []
    for number, record in records:
        state = (record.get("State") or record.get("STATE") or record.get("JobState") or record.get("ST") or "").split(
            " "
        )[0]
        if "NodeName" in record:
            events += _node(record, number, state, file)
            continue
        ended = _time(record.get("End") or record.get("EndTime"), file)
        node = _one_node(record.get("NodeList") or record.get("NODELIST(REASON)") or "")
        meaning = _BAD.get(state)
        values: dict[str, Scalar] = {
            key: record[word]
            for key, word in (("job", "JobID"), ("job", "JOBID"), ("job", "JobId"), ("name", "JobName"), ("elapsed", "Elapsed"),
                              ("limit", "Timelimit"), ("limit", "TimeLimit"), ("memory", "MaxRSS"), ("asked", "ReqMem"),
                              ("reason", "Reason"), ("exit", "ExitCode"), ("nodes", "NodeList"))
            if record.get(word)
        }  # fmt: skip
        if meaning:
            events.append(_event("job-state", file, number, record, node, state, meaning, values, ended))
        code = _code(record.get("ExitCode"))
        if code is not None and state not in ("RUNNING", "PENDING", ""):
            endings.append(
                Ending(
                    about=Who(node=node),
                    code=code,
                    teller="slurm",
                    time=ended,
                    time_error=1.0,
                    message=f"{values.get('job', '')} {state}".strip(),
                    file=file.index,
                    line=number,
                )
            )
    times = [ending.time for ending in endings if ending.time is not None]
    return Part(
        lines=len(lines),
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        events=tuple(events),
        endings=tuple(endings),
        problem=None if records else "no job and no node in it",
    )


def _records(lines: list[str]) -> list[tuple[int, dict[str, str]]]:
    text = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not text:
        return []
    if text[0][1].lstrip().startswith(("JobId=", "NodeName=")):
        return _pairs(text)
    head = text[0][1]
    separator = next((mark for mark in _SEPARATORS if mark in head), None)
    if separator:
        names = [name.strip() for name in head.split(separator)]
        return [
            (number, dict(zip(names, (cell.strip() for cell in line.split(separator)), strict=False)))
            for number, line in text[1:]
        ]
    ruler = next((line for _, line in text[:3] if set(line) <= {"-", " "}), None)
    if ruler:  # sacct cuts what is wider than its column
        columns = [(found.start(), found.end()) for found in re.finditer(r"-+", ruler)]
        names = [head[begin:end].strip() for begin, end in columns]
        rows = [(number, line) for number, line in text[1:] if line != ruler]
        return [
            (number, {n: line[b:e].strip() for n, (b, e) in zip(names, columns, strict=True)}) for number, line in rows
        ]
    names = head.split()
    return [(number, dict(zip(names, line.split(None, len(names) - 1), strict=False))) for number, line in text[1:]]


def _pairs(text: list[tuple[int, str]]) -> list[tuple[int, dict[str, str]]]:
    records: list[tuple[int, dict[str, str]]] = []
    for number, line in text:
        if line.lstrip().startswith(("JobId=", "NodeName=")) or not records:
            records.append((number, {}))
        for key, value in _KEY.findall(line):
            records[-1][1].setdefault(key, value.strip())
    return records


def _node(record: dict[str, str], number: int, state: str, file: LogFile) -> list[NodeEvent]:
    if not _NODE_BAD.search(state):
        return []
    reason = record.get("Reason", "")
    meaning = f"The scheduler has the node as {state}" + (f": {reason}" if reason else "")
    return [_event("node-state", file, number, record, record["NodeName"], state, meaning, {"reason": reason}, None)]


def _event(
    kind: str,
    file: LogFile,
    number: int,
    record: dict[str, str],
    node: str | None,
    state: str,
    meaning: str,
    values: dict[str, Scalar],
    time: float | None,
) -> NodeEvent:
    text = " ".join(f"{key}={value}" for key, value in list(record.items())[:8])
    hit = Hit(
        signature=f"node.{kind}",
        file=file.index,
        line=number,
        offset=0,
        text=text[:500],
        who=Who(node=node),
        time=time,
        time_error=1.0,
    )
    code = _code(record.get("ExitCode"))
    return NodeEvent(
        kind=kind, hit=hit, node=node, code=code, fatal=True, meaning=meaning, values={"state": state, **values}
    )


def _code(text: str | None) -> int | None:
    """Return an exit code; ``0:9`` is signal 9, so -9, and so are ``137:0``, by which a shell tells it, and ``0:125``."""
    found = re.match(r"^(\d+)(?::(\d+))?$", text or "")
    if not found:
        return None
    signal = int(found.group(2) or 0)
    if signal == _OUT_OF_MEMORY:
        return -9
    code = int(found.group(1))
    return -signal if signal else -(code - 128) if 128 < code < 160 else code


def _one_node(text: str) -> str | None:
    """Return the node where the list names one alone."""
    return text if re.fullmatch(r"[A-Za-z][\w.-]*", text) and text not in ("None", "None assigned") else None


def _time(text: str | None, file: LogFile) -> float | None:
    if not text or text in ("Unknown", "None", "N/A"):
        return None
    from preflight.source.logs.clock import Clock
    from preflight.source.logs.times import stamp_at

    stamp = stamp_at(text)
    return Clock(file.modified).at(stamp) if stamp is not None and not stamp.missing else None
