"""A run whose lines are written down as it goes, the truth about it, and the files that its lines come into."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

LAYOUTS = ("torchrun", "prefixed", "srun", "perhost", "pods", "ranks")
MORE_LAYOUTS = ("tagged", "numbered", "journal", "bare", "sets", "fields", "places", "processes")
"""Those that no seed draws: the tags of Open MPI 5, a word and a number, the journal in JSON, lines as they are, and what nobody else
writes: a set of labels, fields of other names, machines and places on them, the numbers of processes alone."""


@dataclass
class Truth:
    """What is to be found."""

    name: str
    culprits: tuple[int, ...]
    nodes: tuple[str, ...]
    categories: tuple[str, ...]
    healthy: bool = False
    common: bool = False
    states: tuple[str, ...] = ()
    offsets: dict[str, float] = field(default_factory=dict)
    attempts: int = 1
    layout: str = ""


@dataclass
class Run:
    """A run whose lines are written down as it goes."""

    random: random.Random
    world: int
    per_node: int
    layout: str
    timed: bool
    whole_seconds: bool
    offsets: dict[str, float]
    start: float
    every_rank: bool
    attempt: int = 0
    rows: list[tuple[float, int | None, str | None, str]] = field(default_factory=list)
    extra: dict[str, list[str]] = field(default_factory=dict)
    step: int = 0
    now: float = 0.0
    pids: dict[int, int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    attempts_of_rows: list[int] = field(default_factory=list)

    def node(self, rank: int) -> str:
        return f"node{rank // self.per_node:02d}"

    @property
    def nodes(self) -> list[str]:
        return sorted({self.node(rank) for rank in range(self.world)})

    def say(self, rank: int, text: str, delay: float = 0.0) -> None:
        """Let a rank print something; a line a moment after the other."""
        if rank in self.silent:
            return
        for number, line in enumerate(text.split("\n")):
            self.rows.append((self.now + delay + number * 1e-4, rank, self.node(rank), line))
            self.attempts_of_rows.append(self.attempt)

    def agent(self, node: str, text: str, delay: float = 0.0) -> None:
        """Let the agent of a node print something."""
        for number, line in enumerate(text.split("\n")):
            self.rows.append((self.now + delay + number * 1e-4, None, node, line))
            self.attempts_of_rows.append(self.attempt)

    def stamp(self, time: float, node: str | None, style: str) -> str:
        """Return a time as the clock of a node shows it."""
        shown = datetime.fromtimestamp(time + self.offsets.get(node or "", 0.0), timezone.utc)
        if style == "torch":
            return f"{shown:%m%d %H:%M:%S}.{shown.microsecond:06d}"
        if self.whole_seconds:
            return f"{shown:%Y-%m-%d %H:%M:%S}"
        return f"{shown:%Y-%m-%d %H:%M:%S},{shown.microsecond // 1000:03d}"

    def steps(self, number: int, seconds: float = 1.0) -> None:
        """Train for so many steps."""
        for _ in range(number):
            self.now += seconds * self.random.uniform(0.9, 1.1)
            self.step += 1
            loss = 8.0 / (1 + 0.05 * self.step) + self.random.gauss(0, 0.02)
            for rank in range(self.world) if self.every_rank else (0,):
                jitter = self.random.uniform(0, 0.03)
                stamp = f"{self.stamp(self.now + jitter, self.node(rank), 'python')} " if self.timed else ""
                self.say(rank, f"{stamp}INFO step {self.step} loss {loss:.4f} lr 3.0e-04 time {seconds:.3f}", jitter)


def begin(run: Run) -> None:
    """Let all ranks start."""
    run.now += 5
    for rank in range(run.world):
        run.pids[rank] = 20_000 + run.attempt * 1000 + rank * 7
        stamp = f"{run.stamp(run.now, run.node(rank), 'python')} " if run.timed else ""
        run.say(rank, f"{stamp}INFO rank {rank} of {run.world} is up on {run.node(rank)}, pid {run.pids[rank]}",
                run.random.uniform(0, 0.2))  # fmt: skip
    run.now += 3


def pre(run: Run, rank: int, delay: float = 0.0) -> str:
    """Return the date that a line of the rank's own logger bears."""
    return f"{run.stamp(run.now + delay, run.node(rank), 'python')} " if run.timed else ""


def write(run: Run, folder: Path) -> None:
    """Write the lines into files of the layout."""
    files: dict[str, list[str]] = {}
    order = sorted(range(len(run.rows)), key=lambda index: run.rows[index][0])
    for index in order:
        when, rank, node, text = run.rows[index]
        if run.layout in MORE_LAYOUTS:
            text = _labelled(run, rank, node or "", text, when)
        for path, line in _placed(run, rank, node or "", text, run.attempts_of_rows[index]):
            files.setdefault(path, []).append(line)
    for path, lines in {**files, **run.extra}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _labelled(run: Run, rank: int | None, node: str, text: str, when: float) -> str:
    """Return a line of a rank as launchers and services other than torch's label it."""
    if rank is None or run.layout == "bare":
        return text
    if run.layout == "tagged":
        return f"[prterun-{run.nodes[0]}-4040@1,{rank}]<stdout>: {text}"
    if run.layout == "numbered":
        return f"gpu {rank} | {text}"
    if run.layout == "sets":
        return f'{{set="pretrain", pod="pretrain-{rank}"}} {text}'
    if run.layout == "places":
        return f"<{node} #{rank % run.per_node}> {text}"
    if run.layout == "processes":
        return f"[{run.pids[rank]}] {text}"
    if run.layout == "fields":
        return json.dumps({"Timestamp": int(when * 1e9), "ctx": {"process_index": rank}, "lvl": "info", "Body": text})
    entry = {"__REALTIME_TIMESTAMP": f"{int(when * 1e6)}", "_HOSTNAME": node, "_PID": str(run.pids[rank])}
    return json.dumps({**entry, "SYSLOG_IDENTIFIER": "train", "MESSAGE": text})


def _placed(run: Run, rank: int | None, node: str, text: str, attempt: int) -> list[tuple[str, str]]:
    several = len(run.nodes) > 1
    if run.layout == "torchrun":
        base = f"{node}/" if several else ""
        if rank is None:
            return [(f"{base}agent.log", text)]
        return [(f"{base}job_x1/attempt_{attempt}/{rank % run.per_node}/stderr.log", text)]
    if run.layout == "prefixed":
        local = f"[default{rank % run.per_node}]:" if rank is not None and several else f"[rank{rank}]: "
        return [(f"{node}.log", text if rank is None else f"{local}{text}")]
    if run.layout == "srun":
        return [("slurm-4711.out", f"{rank}: {text}" if rank is not None else text)]
    if run.layout == "perhost":
        return [(f"logs/{node}.out", f"[rank{rank}]: {text}" if rank is not None else text)]
    if run.layout == "pods":
        number = int(node[4:])
        return [(f"trainer-worker-{number}.log", f"[rank{rank}]: {text}" if rank is not None else text)]
    if run.layout in MORE_LAYOUTS:
        return [("job.log" if rank is not None else "launcher.log", text)]
    return [(f"logs/rank_{rank}.log" if rank is not None else f"logs/launcher-{node}.log", text)]
