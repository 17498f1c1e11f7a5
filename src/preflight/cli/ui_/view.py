"""What a follower knows of a run, as plain values for the parts of a page."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from preflight.investigate.redaction import redact_words
from preflight.monitor.collect.memory import HOST
from preflight.monitor.dashboard.board import Board, Lately
from preflight.monitor.dashboard.recordings import State, state_of
from preflight.monitor.follow import Follower
from preflight.monitor.outcome import notes_of, report_of
from preflight.monitor.trace.process import Process
from preflight.report.parts.alarm_text import groups
from preflight.report.parts.clean import clean, one_line
from preflight.report.parts.options import Options
from preflight.report.parts.page_watched import alarm_view
from preflight.report.parts.sentences import advice
from preflight.vocabulary.invariant import Invariant
from preflight.vocabulary.report import Report

MOST_ALARMS = 50
MOST_OTHERS = 20
MOST_RANKS = 64
"""Ranks of the table and of the heatmap."""
_IN_THE_TABLE = ("running", "no end", "no rank", "failed")
"""Gaps of a trace that the table of the ranks shows."""
_LATE = 2
"""Iterations that ranks are apart in any run that is looked at while it goes on."""


class Heat(msgspec.Struct, frozen=True):
    """Mean seconds of a step by rank and span of steps.

    Attributes:
        width: Steps of a span.
        ranks: The ranks of the rows, in order.
        columns: For each span the seconds of each rank; None where nothing is known.
        left_out: How many ranks there are besides.
    """

    width: int = 1
    ranks: tuple[int, ...] = ()
    columns: tuple[tuple[float | None, ...], ...] = ()
    left_out: int = 0


def sections_of(
    follower: Follower, board: Board, invariants: Sequence[Invariant], *, over: bool, reading: bool
) -> dict[str, Any]:
    """Return the parts of the page: ``run``, ``figures``, ``alarms``, ``ranks`` and ``about``.

    Args:
        follower: What was judged so far.
        board: The numbers of the training that is shown: the last that began.
        invariants: What is held against it.
        over: Whether everything was judged, and nobody writes any more.
        reading: Whether a recording is being read that was there before.
    """
    report = report_of(follower, invariants, "ui")
    return {
        "problem": None,
        "run": _run(follower, report, over, reading),
        "figures": _figures(board, follower),
        "alarms": _alarms(report),
        "ranks": _ranks(follower, board, over, reading),
        "about": _about(follower, report, invariants),
    }


def heat_of(board: Board) -> Heat:
    """Return the step times; of many ranks those whose steps take longest."""
    means = board.spans.means()
    slowest = sorted(means, key=lambda rank: -means[rank])
    ranks = tuple(sorted(slowest[:MOST_RANKS]))
    spans = max((span for _, span in board.spans.cells), default=-1) + 1
    cells = board.spans.cells
    columns = []
    for span in range(spans):
        found = [cells.get((rank, span)) for rank in ranks]
        columns.append(tuple(None if one is None else round(one.seconds / one.steps, 6) for one in found))
    return Heat(board.spans.width, ranks, tuple(columns), len(means) - len(ranks))


def _run(follower: Follower, report: Report, over: bool, reading: bool) -> dict[str, Any]:
    folder, run = follower.folder, follower.folder.run
    trainers = [process for process in folder.processes if process.role == "trainer"]
    state = state_of(folder.path, run)
    if over and state == "running":
        state = "stopped"  # its processes are gone, and nobody said how
    seen = [at for process in trainers if (at := process.last_seen()) is not None]
    command = " ".join(redact_words(run.arguments)) if run is not None else ""
    return {
        "program": clean(run.program) if run is not None and run.program else folder.path.resolve().name,
        "command": clean(command[:2000]),
        "path": clean(folder.path),
        "state": state,
        "waiting": state == "running" and not trainers,
        "said": _said(state, run.exit_code if run is not None else None, trainers),
        "reading": reading,
        "over": over,
        "started": run.started if run is not None else None,
        "ended": run.ended if run is not None else None,
        "seen": max(seen, default=None),
        "now": time.time(),
        "verdict": report.verdict if over else None,
        "advice": advice(report) if over else None,
    }


def _said(state: State, code: int | None, trainers: Sequence[Process]) -> str | None:
    """Say how a run ended, with the error that came first: those of other ranks follow from a rank that is gone.

    The rank that did not get as far as others comes before them; clocks of machines differ, and decide where that is equal.
    """
    failed = [process for process in trainers if process.end and process.end.get("error")]
    first = min(failed, key=lambda one: (one.iteration, one.last_seen() or 0.0, one.rank), default=None)
    error = str(first.end["error"]) if first is not None and first.end else ""
    why = f"; rank {first.rank}: {one_line(error)[:300]}" if first is not None else ""
    if state == "failed":
        return f"exit code {code}{why}"
    if state == "killed" and code is not None:
        return f"{_signal(code - 128)}{why}"
    if state == "stopped":
        return f"the recording ends without a word: it was killed, or the machine went down{why}"
    return why.removeprefix("; ") or None


def _signal(number: int) -> str:
    import signal

    try:
        return f"by {signal.Signals(number).name} ({number})"
    except ValueError:
        return f"by signal {number}"


def _figures(board: Board, follower: Follower) -> dict[str, Any]:
    """Return the last word on the numbers of the run: of the rank with the lowest number where ranks differ."""
    speeds = {rank: speed for rank, known in sorted(board.lately.items()) if (speed := known.speed()) is not None}
    shown = next(iter(speeds.values()), None)
    latest: dict[str, float | None] = {}
    for key, curve in sorted(board.curves.items(), key=lambda one: (one[0].rank, one[0].subject)):
        if key.chart in ("loss", "learning rate", "gradient norm") and len(curve):
            latest.setdefault(key.chart, curve.last)
    team = follower.teams[-1] if follower.teams else None
    return {
        "step": max((known.step for known in board.lately.values()), default=0),
        "iterations": max((known.iteration + 1 for known in board.lately.values()), default=0),
        "ranks": len(board.lately),
        "world": team.world if team is not None else None,
        "speed": None if shown is None else msgspec.structs.asdict(_Rate(*shown)),
        "slowest": _slowest({rank: speed.seconds for rank, speed in speeds.items()}),
        "latest": latest,
        "devices": _devices(board),
        "resident": max(
            (held.resident for known in board.lately.values() if (held := known.memory.get(HOST)) and held.resident),
            default=None,
        ),
        "trainings": len(follower.teams),
    }


class _Rate(msgspec.Struct):
    """The fields of a ``Speed`` by their names."""

    steps: float | None
    seconds: float
    samples: float | None
    tokens: float | None
    shape: tuple[int, ...] | None


def _slowest(seconds: dict[int, float]) -> dict[str, Any] | None:
    """Return the rank whose iterations take longest, where it stands out of several."""
    if len(seconds) < 2:
        return None
    rank = max(seconds, key=lambda one: seconds[one])
    middle = statistics.median(seconds.values())
    return {"rank": rank, "ratio": round(seconds[rank] / middle, 3)} if middle > 0 else None


def _devices(board: Board) -> dict[str, Any] | None:
    """Return the fullest device of all ranks."""
    readings = [
        (rank, held) for rank, known in board.lately.items() for name, held in known.memory.items() if name != HOST
    ]
    if not readings:
        return None
    rank, held = max(readings, key=lambda one: (one[1].peak_reserved or 0, -one[0]))
    return {
        "rank": rank, "device": clean(held.device), "allocated": held.allocated, "reserved": held.reserved,
        "peak": held.peak, "peak_reserved": held.peak_reserved, "capacity": held.capacity,
    }  # fmt: skip


def _alarms(report: Report) -> dict[str, Any]:
    from preflight.check.files.source_lines import SourceLines

    found = groups(report.violations)
    sources = SourceLines()
    texts: dict[str, str] = {}
    for group in found[:MOST_ALARMS]:
        path = group[0].location.path
        if path is not None and path.endswith((".py", ".ipynb")) and (text := sources.text(path)) is not None:
            texts[path] = text
    options = Options(sources=texts)
    shown = []
    for number, group in enumerate(found[:MOST_ALARMS], 1):
        view = alarm_view(number, group, report, options)
        left = max(len(view["others"]) - MOST_OTHERS, 0)
        shown.append({**view, "step": group[0].first_step, "others": view["others"][:MOST_OTHERS], "others_left": left})
    return {
        "shown": shown,
        "left": len(found) - len(shown),
        "errors": sum(one.severity == "error" for one in report.alarms),
        "warnings": sum(one.severity == "warning" for one in report.alarms),
    }


def _ranks(follower: Follower, board: Board, over: bool, reading: bool) -> dict[str, Any]:
    """Return a row for each rank: those that trouble first where there are many."""
    processes: dict[int, Process] = {}
    for process in follower.folder.processes:
        if process.role == "trainer" and process.facts:
            known = processes.get(process.rank)
            if known is None or process.attempt >= known.attempt:
                processes[process.rank] = process
    furthest = max((process.iteration for process in processes.values()), default=-1)
    rows = [
        _rank(process, _state(follower, process, over, reading), board.lately.get(rank), 0 if reading else furthest)
        for rank, process in processes.items()
    ]
    world = 0 if reading else max((process.world or 1 for process in processes.values()), default=0)
    rows += [{"rank": rank, "state": "not seen", "trouble": True} for rank in set(range(world)) - set(processes)]
    rows.sort(key=lambda row: row["rank"])
    if len(rows) > MOST_RANKS:
        first = sorted(rows, key=lambda row: (not row["trouble"], row["rank"]))[:MOST_RANKS]
        shown = sorted(first, key=lambda row: row["rank"])
    else:
        shown = rows
    return {"shown": shown, "left": len(rows) - len(shown)}


def _rank(process: Process, state: tuple[str, str | None], known: Lately | None, furthest: int) -> dict[str, Any]:
    word, error = state
    behind = max(furthest - process.iteration, 0)
    speed = known.speed() if known is not None else None
    devices = [held for name, held in known.memory.items() if name != HOST] if known is not None else []
    held = max(devices, key=lambda one: one.peak_reserved or 0, default=None)
    host = known.memory.get(HOST) if known is not None else None
    return {
        "rank": process.rank,
        "host": clean(process.host or ""),
        "pid": process.pid,
        "starts": process.attempt + 1,
        "state": word,
        "error": error,
        "iteration": process.iteration,
        "step": known.step if known is not None else None,
        "behind": behind if behind >= _LATE else 0,
        "seconds": speed.seconds if speed is not None else None,
        "device": clean(held.device) if held is not None else None,
        "allocated": held.allocated if held is not None else None,
        "peak": held.peak if held is not None else None,
        "capacity": held.capacity if held is not None else None,
        "resident": host.resident if host is not None else None,
        "trouble": word in ("failed", "stopped", "killed") or behind >= _LATE,
    }


def _state(follower: Follower, process: Process, over: bool, reading: bool) -> tuple[str, str | None]:
    """Return how a process stands, and the error that ended it."""
    end = process.end
    if end is not None:
        error = one_line(end["error"])[:300] if end.get("error") else None
        return {"exception": "failed", "signal": "killed"}.get(str(end.get("how")), "ended"), error
    running = False if over else follower.folder.running(process)
    if running is False and reading:
        return "being read", None  # its last word may come yet
    return ("stopped" if running is False else "running"), None


def _about(follower: Follower, report: Report, invariants: Sequence[Invariant]) -> dict[str, Any]:
    """Return what is known of the recording itself."""
    run, watched = follower.folder.run, report.watched
    facts = {name: fact.value for name, fact in report.facts.items()}
    rows = [
        ("folder", clean(follower.folder.path.resolve())),
        ("started in", clean(run.directory) if run is not None and run.directory else None),
        ("machine", clean(run.host) if run is not None and run.host else None),
        ("framework", facts.get("framework")),
        ("Python", facts.get("python")),
        ("recording may take", f"{run.budget:g} % of the time" if run is not None and run.budget else None),
        ("recorded more seldom", facts.get("thinned") if facts.get("thinned") != "nothing" else None),
    ]
    if watched is not None:
        held = f"{watched.in_force:,} invariants, {watched.judged:,} of them judged in {watched.examples:,} examples"
        rows.append(("held against it", held))
    notes: list[str] = []
    if watched is not None and follower.windows:
        others = tuple(gap for gap in watched.gaps if gap.what not in _IN_THE_TABLE)
        notes = notes_of(msgspec.structs.replace(watched, gaps=others), follower, invariants)
    return {
        "rows": [(name, str(value)) for name, value in rows if value is not None],
        "notes": [one_line(note) for note in notes],
    }
