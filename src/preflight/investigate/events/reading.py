"""Where events and jobs are read from: lines of an event logger, tables of jobs, the logs of a job each."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from preflight.errors import InputError
from preflight.investigate.events.jobs import Job
from preflight.investigate.events.logger import TrainingEvent, event_of
from preflight.investigate.paths import there

_NODES = ("nodes", "node", "nodelist", "hosts", "hostnames")
_NAMES = ("job", "name", "id", "jobid", "run")
_OUTCOMES = ("outcome", "result", "status", "state", "failed", "ok", "passed", "success", "exit_code", "returncode")
_BAD = (
    "1",
    "true",
    "yes",
    "fail",
    "failed",
    "failure",
    "error",
    "crash",
    "crashed",
    "timeout",
    "hung",
    "hang",
    "node_fail",
    "oom",
    "out_of_memory",
    "bad",
)


def read_events(paths: Sequence[str]) -> tuple[list[TrainingEvent], list[str]]:
    """Read lines of events; what is none is counted in the notes.

    Raises:
        InputError: A path is not there, or holds no event at all.
    """
    found: list[TrainingEvent] = []
    notes = []
    for path in paths:
        files = [path]
        if os.path.isdir(path):
            files = sorted(
                os.path.join(top, name) for top, _, names in os.walk(path) for name in names if name.endswith(".jsonl")
            )
        elif not os.path.isfile(path):
            there(path)
        lines = other = 0
        for one in files:
            with open(one, encoding="utf-8", errors="replace") as file:
                for line in file:
                    if not line.strip():
                        continue
                    event = event_of(line)
                    lines, other = lines + (event is not None), other + (event is None)
                    if event is not None:
                        found.append(event)
        if not lines:
            raise InputError(
                f"{path}: no event in it", 'events are lines like {"timestamp": 1.0, "event_type": "checkpoint"}'
            )
        if other:
            notes.append(f"{path}: {other} lines are no events")
    return found, notes


def read_jobs(paths: Sequence[str]) -> tuple[list[Job], list[str]]:
    """Read jobs: tables (CSV, JSON) with a row each, and logs or folders of one job each; and what was left out.

    Raises:
        InputError: A path is not there, or a table does not say how its jobs ended.
    """
    found: list[Job] = []
    notes: list[str] = []
    for path in paths:
        there(path)
        if os.path.isfile(path) and path.lower().endswith((".csv", ".json", ".jsonl")):
            found += _table(path)
        else:
            job = job_of_logs(path)
            if job is None:
                notes.append(f"{path}: does not tell how this job ended; it is not counted")
            else:
                found.append(job)
    return found, notes


def _table(path: str) -> list[Job]:
    import csv

    with open(path, encoding="utf-8-sig", errors="replace") as file:
        text = file.read().replace("\0", "")
    try:
        if path.lower().endswith(".csv"):
            import io

            rows: list[dict[str, Any]] = [dict(row) for row in csv.DictReader(io.StringIO(text))]
        elif path.lower().endswith(".jsonl"):
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            content = json.loads(text)
            rows = content.get("jobs", []) if isinstance(content, dict) else content
        return [job_of_row({str(k).lower(): v for k, v in row.items()}, f"{path} {i}") for i, row in enumerate(rows, 1)]
    except (ValueError, AttributeError, TypeError, csv.Error) as error:
        raise InputError(f"{path}: not a table of jobs: {error}") from None


def job_of_row(row: dict[str, Any], name: str) -> Job:
    """A row as a job; columns that are neither its name, its end nor its nodes are versions."""
    told = next((key for key in _OUTCOMES if row.get(key) not in (None, "")), None)
    if told is None:
        raise InputError(f"{name}: does not say how it ended", f"one of the columns {', '.join(_OUTCOMES)}")
    word = str(row[told]).strip().lower()
    good = told in ("ok", "passed", "success")
    failed = (
        (word not in ("0", "0.0", "", "0:0")) if told in ("exit_code", "returncode") else (word in _BAD) is not good
    )
    nodes: list[str] = []
    for key in _NODES:
        cell = row.get(key)
        nodes += list(cell) if isinstance(cell, list) else split_nodes(str(cell)) if cell else []
    known = {*_OUTCOMES, *_NODES, *_NAMES}
    versions = tuple(
        (key, str(cell))
        for key, cell in row.items()
        if key not in known and cell not in (None, "") and not isinstance(cell, (list, dict))
    )
    title = next((str(row[key]) for key in _NAMES if row.get(key)), name)
    return Job(name=title, failed=failed, nodes=tuple(dict.fromkeys(map(str, nodes))), versions=versions)


def split_nodes(text: str) -> list[str]:
    """Names of nodes, apart by blanks, commas or semicolons; ``node[01-03,7]`` is written out as Slurm means it."""
    found: list[str] = []
    depth = 0
    current = ""
    for char in text + ",":
        if char in ",; \t|" and depth == 0:
            if current:
                found += _expanded(current)
            current = ""
            continue
        depth += (char == "[") - (char == "]")
        current += char
    return found


def _expanded(name: str) -> list[str]:
    head, bracket, rest = name.partition("[")
    inner, closed, tail = rest.partition("]")
    if not bracket or not closed:
        return [name]
    found = []
    for part in inner.split(","):
        low, dash, high = part.partition("-")
        if dash and low.isdigit() and high.isdigit() and int(high) - int(low) < 100_000:
            found += [f"{head}{number:0{len(low)}d}{tail}" for number in range(int(low), int(high) + 1)]
        else:
            found.append(f"{head}{part}{tail}")
    return [one for name in found for one in (_expanded(name) if "[" in name else [name])]


def job_of_logs(path: str) -> Job | None:
    """The logs of a job: how it ended, where it ran, and which lines it has that do not themselves tell of a failure.

    None: they do not tell how it ended.
    """
    from preflight.catalog.signature_files import load_signatures
    from preflight.investigate.judge import judge
    from preflight.source.logs import read_logs

    known = load_signatures()
    reading = read_logs([path], known)
    incident = judge(reading, known)
    if incident.state == "unknown":
        return None
    telling = {one.id for one in known if one.role in ("progress", "recovered", "benign", "confirmation")}
    hits = {hit.signature for hit in reading.hits if hit.signature in telling}
    versions = sorted(
        {(name, value) for one in reading.environments for name, value in one.values.items() if "." not in name}
    )
    return Job(
        name=path,
        failed=incident.state in ("crashed", "hung", "stalled"),
        nodes=tuple(incident.nodes_seen),
        versions=tuple(versions),
        templates=(*sorted(hits), *sorted(one.template for one in reading.unknown)),
    )
