"""The quick look at a live node: what is seen, and what it comes to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from preflight.errors import UsageError
from preflight.investigate.doctor.asking import NoAnswer, ask
from preflight.investigate.rank_evidence import ranks_written
from preflight.investigate.triage import headroom as memory
from preflight.investigate.triage.checkpoints import Checkpoints, checkpoints
from preflight.investigate.triage.processes import JobProcess, job_processes
from preflight.investigate.triage.reach import WORDS, Reached, reach
from preflight.vocabulary.finding import Finding, Location, Scalar
from preflight.vocabulary.live import RankPulse
from preflight.vocabulary.quantity import format_bytes, format_seconds, format_share

NOTEWORTHY = 0.05
"""A process is told of with its memory where it holds so much of all."""
MANY = 3
"""More ranks than this that are lost in the same way are one finding."""
STARTING = 60.0
"""Seconds that a process may take to import torch, beside the deadline."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at.

    Attributes:
        store: Host and port of the store in which hearts beat; None: liveness is not asked.
        world_size: Ranks that there should be. deadline: Seconds of silence, and for connections.
        stalled: Also tell of ranks that live and whose step stands still; waits the whole deadline.
        nodes: Other nodes to reach.
        checkpoints: Where they lie. oldest: Minutes after which the last one is too old.
        python: The interpreter that trains. process: Look at this process and its descendants only.
    """

    store: tuple[str, int] | None = None
    world_size: int | None = None
    deadline: float = 5.0
    stalled: bool = False
    nodes: tuple[tuple[str, int], ...] = ()
    checkpoints: str | None = None
    oldest: float | None = None
    python: str = sys.executable
    process: int | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen; ``steps``: whether it was waited for steps."""

    processes: tuple[JobProcess, ...] | None
    memory: memory.Headroom
    pulses: tuple[RankPulse, ...] = ()
    reached: tuple[Reached, ...] = ()
    checkpoints: Checkpoints | None = None
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    steps: bool = False


def look(given: Look) -> Seen:
    """Look at everything, each part with a deadline.

    Raises:
        UsageError: There is no process of the number that was named.
    """
    if given.process is not None and os.path.isdir("/proc/self") and not os.path.isdir(f"/proc/{given.process}"):
        raise UsageError(
            f"there is no process {given.process} on this node", "it may have ended, or runs on another node"
        )
    processes = job_processes(given.process)
    held = memory.headroom(max(given.deadline, 5.0))
    reached = tuple(reach(given.nodes, given.deadline))
    saved = checkpoints(given.checkpoints) if given.checkpoints else None
    findings = [*_processes(processes), *memory.findings_of(held, {one.pid for one in processes or ()})]
    pulses, told = _pulses(given)
    findings += told + list(lost(pulses))
    findings += [_reached(one) for one in reached if one.state != "open"]
    findings += _saved(saved, given.oldest) if saved is not None else []
    return Seen(
        processes=processes, memory=held, pulses=pulses, reached=reached, checkpoints=saved, findings=tuple(findings),
        notes=tuple(_notes(processes, held, reached, saved)), steps=given.stalled,
    )  # fmt: skip


def _pulses(given: Look) -> tuple[tuple[RankPulse, ...], list[Finding]]:
    """Ask who lives, in a process of its own, which has torch and can be ended."""
    if given.store is None:
        return (), []
    store = f"{given.store[0]}:{given.store[1]}"
    line = [
        given.python,
        "-m",
        "preflight.investigate.triage.pulses",
        store,
        str(given.deadline),
        str(int(given.stalled)),
    ]
    line += [str(given.world_size)] if given.world_size is not None else []
    try:
        return tuple(msgspec.json.decode(ask(line, given.deadline + STARTING), type=list[RankPulse])), []
    except NoAnswer as error:
        said = str(error).partition(": ")[2] or str(error)
        return (), [Finding("triage.store", "TRI104", "error", "certain", said, Location())]


def lost(pulses: Sequence[RankPulse]) -> Iterator[Finding]:
    """Yield the ranks that others wait for in vain; many of the same state are told at once."""
    alike: dict[str, list[RankPulse]] = {}
    for pulse in pulses:
        if pulse.lost:
            alike.setdefault(pulse.state, []).append(pulse)
    for state, those in alike.items():
        if len(those) > MANY:
            who = ranks_written([one.rank for one in those])
            where = {one.node for one in those}
            first = those[0]
            said = f"{len(those)} ranks are {state}: {who}; of rank {first.rank}: {first.reason}"
            node = where.pop() if len(where) == 1 else None
            yield Finding("triage.rank", "TRI105", "error", "certain", said, Location(node=node))
            continue
        for one in those:
            at = Location(rank=one.rank, node=one.node, step=one.step)
            said = f"rank {one.rank} is {one.state}: {one.reason}"
            yield Finding("triage.rank", "TRI105", "error", "certain", said, at)


def _reached(one: Reached) -> Finding:
    said = f"{one.host}:{one.port} {WORDS[one.state]}"
    severity: Any = "warning" if one.state == "refused" else "error"
    return Finding("triage.node", "TRI106", severity, "certain", said, Location(node=one.host))


def _processes(processes: tuple[JobProcess, ...] | None) -> list[Finding]:
    found = []
    for one in processes or ():
        bad = {"stopped": "is stopped", "ended, not yet buried": "has ended"}.get(one.state)
        if bad:
            who = f"rank {one.rank}" if one.role == "rank" else "the agent"
            found.append(
                Finding(
                    "triage.process",
                    "TRI107",
                    "error",
                    "certain",
                    f"{who} (process {one.pid}) {bad}",
                    Location(rank=one.rank),
                )
            )
    return found


def _saved(saved: Checkpoints, oldest: float | None) -> list[Finding]:
    found = []
    if saved.age_seconds is not None and oldest is not None and saved.age_seconds > oldest * 60:
        said = f"the last checkpoint is {_age(saved.age_seconds)} old: {saved.newest}"
        found.append(Finding("triage.checkpoint", "TRI108", "warning", "certain", said, Location(path=saved.newest)))
    if saved.age_seconds is None:
        found.append(
            Finding("triage.checkpoint", "TRI108", "warning", "certain", f"{saved.folder}: {saved.problem}", Location())
        )
    found += [
        Finding(
            "triage.checkpoint",
            "TRI108",
            "warning",
            "likely",
            f"{path} was begun and not finished",
            Location(path=path),
        )
        for path in saved.partial[:3]
    ]
    return found


def _notes(
    processes: tuple[JobProcess, ...] | None,
    held: memory.Headroom,
    reached: Sequence[Reached],
    saved: Checkpoints | None,
) -> list[str]:
    notes = []
    if processes is None:
        notes.append("processes: there is no /proc to look at")
    elif not processes:
        notes.append("processes: none with RANK and WORLD_SIZE in its environment that this user may look at")
    for one in processes or ():
        who = f"rank {one.rank} of {one.world_size}" if one.role == "rank" else "agent"
        held_bytes = format_bytes(one.bytes) if one.bytes is not None else "?"
        notes.append(f"{who}: process {one.pid}, {one.state}, {held_bytes}, {_age(one.seconds or 0)} old, "
                     f"{format_seconds(one.processor_seconds or 0)} of processor time")  # fmt: skip
    if held.total and held.available is not None:
        notes.append(f"memory: {format_bytes(held.available)} of {format_bytes(held.total)} can be had")
    notes += [
        f"memory: {format_bytes(size)} in process {pid}: {command}"
        for pid, size, command in held.holders[:3]
        if size >= NOTEWORTHY * (held.total or 0)
    ]
    for card in held.cards:
        busy = f", {format_share(card.busy)} busy" if card.busy is not None else ""
        notes.append(
            f"card {card.index} ({card.name}): {format_bytes(card.total - card.used)} of {format_bytes(card.total)} free{busy}"
        )
    if held.problem:
        notes.append(f"cards: not seen: {held.problem}")
    notes += [
        f"{one.host}:{one.port} {WORDS[one.state]} in {format_seconds(one.seconds or 0)}"
        for one in reached
        if one.state == "open"
    ]
    if saved is not None and saved.age_seconds is not None:
        notes.append(f"checkpoint: {saved.newest}, {_age(saved.age_seconds)} old, {format_bytes(saved.bytes or 0)}")
    return notes


def nothing_of_a_run(seen: Seen) -> bool:
    """Return whether nothing was seen that belongs to a run: that the host has memory left does not make one healthy."""
    return not (seen.processes or seen.memory.cards or seen.pulses or seen.reached or seen.checkpoints)


def observed(seen: Seen) -> dict[str, Scalar]:
    """Return what was seen in the words of the decision trees."""
    found: dict[str, Scalar] = {}
    there = any(one.role == "rank" and one.state != "ended, not yet buried" for one in seen.processes or ())
    there = there or any(one.lives and one.state != "left" for one in seen.pulses)  # on whichever node
    # Who is not root sees variables of his own processes only: that none is seen says nothing then.
    if there or (seen.processes is not None and hasattr(os, "geteuid") and os.geteuid() == 0):
        found["processes"] = there
    busy = [card.busy for card in seen.memory.cards if card.busy is not None]
    if busy:
        found["gpu_utilisation"] = sum(busy) / len(busy)
    if seen.steps and (going := _going(seen.pulses)) is not None:
        found["makes_steps"] = going
    return found


def _going(pulses: Sequence[RankPulse]) -> bool | None:
    """Return whether steps were made while it was waited for them; None where no rank tells of its steps."""
    telling = [one for one in pulses if one.step is not None and one.state != "left"]
    return any(one.state == "alive" for one in telling) if telling else None


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
