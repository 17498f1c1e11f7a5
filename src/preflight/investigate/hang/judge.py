"""Puts states, stacks and recorders of the ranks together: who is waited for, and why it is thought so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import exp

import msgspec

from preflight.investigate.flight.votes import FlightEvidence, votes_of_flights
from preflight.investigate.hang.processes import STATES, RankProcess
from preflight.investigate.rank_evidence import RankEvidence, evidence_of, ranks_written
from preflight.investigate.stacks.grouping import StackEvidence, main_threads, votes_of_stacks
from preflight.vocabulary.incident import Culprit, Incident, NextStep, Reason, RunState, Suspect
from preflight.vocabulary.log import Flight, Frame, LogFile, Stack
from preflight.vocabulary.signature import Category

# Natural logarithms of likelihood ratios: a stopped or ended process is what the others wait for.
STATE_WEIGHT = {"T": 5.0, "t": 3.0, "Z": 5.0, "X": 5.0, "D": 1.5}
NO_PROCESS = 4.0
# Below this nobody is named; within so much of the first, others are named with it.
NAMED = 1.2
BESIDE = 3.5
# Of a job that does not hang nobody is waited for.
_NOT_WAITED_FOR: dict[RunState, str] = {
    "running": "the ranks move",
    "ended": "the ranks ended while they were looked at",
}
# Weight of "it was nobody in particular".
NOBODY = 0.5
# What the frames of a rank that is waited for say of the cause.
_ROOTS: tuple[tuple[Category, tuple[str, ...]], ...] = (
    ("data", ("torch/utils/data/", "_next_data", "__getitem__", "webdataset", "/datasets/")),
    ("checkpoint", ("torch/serialization", "torch/distributed/checkpoint", "save_checkpoint", "safetensors")),
    ("compile", ("torch/_inductor", "torch/_dynamo", "triton/compiler")),
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken of a job.

    Attributes:
        processes: The ranks on this node, as they are now.
        stacks: The last of each, all threads.
        moving: Ranks whose main thread was elsewhere a moment before.
        still: Ranks whose main thread was in the same place.
        flights: What their recorders hold.
        missing: Ranks that should be on this node and have no process.
        files: For quotes, where the stacks were read from files.
        notes: What could not be taken, and why.
    """

    processes: tuple[RankProcess, ...] = ()
    stacks: tuple[Stack, ...] = ()
    moving: tuple[int, ...] = ()
    still: tuple[int, ...] = ()
    flights: tuple[Flight, ...] = ()
    missing: tuple[int, ...] = ()
    files: tuple[LogFile, ...] = ()
    notes: tuple[str, ...] = ()


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The incident, and what it rests on."""

    incident: Incident
    stacks: StackEvidence
    flights: FlightEvidence
    evidence: tuple[RankEvidence, ...]


def judge(seen: Seen) -> Judged:
    """Say what the job does and who is waited for."""
    world = next((one.world_size for one in seen.processes if one.world_size), None)
    flights = votes_of_flights(seen.flights, world_size=world, files=seen.files)
    groups = {name: members for flight in seen.flights for name, members in flight.groups.items()}
    stacks = votes_of_stacks(seen.stacks, groups=groups, files=seen.files)
    reasons: dict[int, list[Reason]] = {}
    _of_states(seen, reasons)
    for one in (*stacks.ranks, *(flights.ranks if _trusted(seen, flights) else ())):
        reasons.setdefault(one.rank, []).extend(one.reasons)
    evidence = evidence_of(reasons)
    state = _state(seen, stacks, flights)
    culprit = Culprit(reason=_NOT_WAITED_FOR[state]) if state in _NOT_WAITED_FOR else _culprit(evidence, _apart(stacks))
    incident = _incident(seen, state, culprit, stacks, flights)
    if state not in _NOT_WAITED_FOR:
        incident = msgspec.structs.replace(
            incident, next=(*_at(stacks, flights, culprit, _halted(seen)), *incident.next)
        )
    return Judged(incident=incident, stacks=stacks, flights=flights, evidence=evidence)


def _at(
    stacks: StackEvidence, flights: FlightEvidence, culprit: Culprit, halted: Collection[int]
) -> Iterator[NextStep]:
    """Return what to look at first: the place at which who is waited for stands, or the call that differs."""
    for group in stacks.outliers:
        # Of who does not run, the place says nothing: wherever it was, it stands there.
        here = tuple(rank for rank in group.ranks if rank not in halted)
        if set(here) & set(culprit.ranks) and not group.communicating:
            yield NextStep(
                text=f"See what {ranks_written(here)} waits for, reads or computes at {group.place}", kind="act"
            )
    if flights.differences:
        yield NextStep(
            text="Let all ranks make the same call with the same sizes there: look for a branch on the rank or on data",
            kind="act",
            command="preflight investigate fix same-collectives-on-all-ranks",
        )


def _trusted(seen: Seen, flights: FlightEvidence) -> bool:
    """Of a job that spreads over several nodes, the recorders of one say nothing of the ranks on the others."""
    asked = {flight.who.rank for flight in seen.flights}
    world = next((one.world_size for one in seen.processes if one.world_size), None)
    here = {one.rank for one in seen.processes}
    return bool(asked) and (not here or world is None or len(here) + len(seen.missing) >= world)


def _of_states(seen: Seen, reasons: dict[int, list[Reason]]) -> None:
    for one in seen.processes:
        weight = STATE_WEIGHT.get(one.state)
        if weight is not None and one.rank is not None:
            where = f" in {one.waits_in}" if one.state == "D" and one.waits_in else ""
            text = f"its process {one.pid} is {STATES[one.state]} (state {one.state}){where}"
            reasons.setdefault(one.rank, []).append(Reason(text=text, weight=weight))
    for rank in seen.missing:
        reasons.setdefault(rank, []).append(
            Reason(text="it has no process on this node, where it belongs", weight=NO_PROCESS)
        )


def _halted(seen: Seen) -> dict[int, str]:
    """Return the ranks whose processes do not run any more, with the letter of their state."""
    return {one.rank: one.state for one in seen.processes if one.rank is not None and one.state in ("T", "t", "Z", "X")}


def _state(seen: Seen, stacks: StackEvidence, flights: FlightEvidence) -> RunState:
    ended = sum(one.state in ("Z", "X") for one in seen.processes)
    if 2 * ended > len(seen.processes):
        return "ended"
    if any(one.state in ("T", "t", "Z", "X") for one in seen.processes) or seen.missing:
        return "hung"
    looked = len(seen.moving) + len(seen.still)
    if looked and 2 * len(seen.moving) > looked:
        return "running"
    first = stacks.dominant
    waiting = first is not None and (
        first.communicating or (first.backward and bool(_out_of(stacks)) and not seen.moving)
    )
    if waiting or flights.text is not None:
        return "hung"
    return "unknown" if not looked else "running" if seen.moving else "stalled"


def _out_of(stacks: StackEvidence) -> tuple[int, ...]:
    """Return the ranks that are not in the backward pass in which most are: those wait for their gradients, where nobody moves."""
    return tuple(rank for group in stacks.outliers if not group.backward for rank in group.ranks)


def _apart(stacks: StackEvidence) -> frozenset[int]:
    """Return the ranks that are in no collective while most wait in one: another rank's fault does not explain that."""
    if stacks.dominant is None or not stacks.dominant.communicating:
        return frozenset()
    return frozenset(rank for group in stacks.outliers if not group.communicating for rank in group.ranks)


def _culprit(evidence: Sequence[RankEvidence], apart: frozenset[int]) -> Culprit:
    """Turn the weights into probabilities beside that of nobody in particular."""
    if not evidence:
        return Culprit(reason="all ranks are in the same place: what holds them is outside of them, or on another node")
    whole = exp(NOBODY) + sum(exp(one.weight) for one in evidence)
    suspects = tuple(
        Suspect(rank=one.rank, probability=round(exp(one.weight) / whole, 4), reasons=one.reasons)
        for one in evidence[:16]
    )
    top = evidence[0].weight
    named = [one for one in evidence if one.weight >= NAMED and (one.weight >= top - BESIDE or one.rank in apart)]
    if top < NAMED or len(named) > max(1, (len(evidence) + 1) // 2):
        return Culprit(suspects=suspects, reason="no rank stands out from the others")
    share = sum(exp(one.weight) for one in named) / whole
    return Culprit(
        ranks=tuple(sorted(one.rank for one in named)),
        confidence=round(share, 4),
        reasons=tuple(reason for one in named for reason in one.reasons[:3]),
        suspects=suspects,
    )


def _incident(
    seen: Seen, state: RunState, culprit: Culprit, stacks: StackEvidence, flights: FlightEvidence
) -> Incident:
    root = flights.category if flights.differences else None
    mains, halted = main_threads(seen.stacks), _halted(seen)
    for rank in culprit.ranks:
        if root is None and rank in halted:
            root = "preemption" if halted[rank] == "T" else None  # a signal from outside; where it was does not matter
        elif root is None and f"rank {rank}" in mains:
            root = _root_of(mains[f"rank {rank}"].frames)
    symptom: Category | None = "network" if state == "hung" else None
    category: Category = (
        root or (symptom if culprit.ranks else None) or ("none" if state == "running" else "cannot-tell")
    )
    return Incident(
        state=state,
        onset=None,
        scope="rank" if culprit.ranks else None,
        category=category,
        root_category=root,
        symptom_category=symptom,
        signature=None,
        confidence=culprit.confidence,
        headline=_headline(seen, state, culprit, stacks, flights),
        culprit=culprit,
        reasons=culprit.reasons,
        next=_next(seen, state, culprit),
        world_size=next((one.world_size for one in seen.processes if one.world_size), None),
        ranks_seen=tuple(sorted({stack.who.rank for stack in seen.stacks if stack.who.rank is not None})),
        reason=culprit.reason,
    )


def _root_of(frames: Sequence[Frame]) -> Category | None:
    for category, words in _ROOTS:
        if any(word in frame.path or word == frame.function for frame in frames for word in words):
            return category
    return None


def _headline(seen: Seen, state: RunState, culprit: Culprit, stacks: StackEvidence, flights: FlightEvidence) -> str:
    if state == "running":
        return f"the job runs: {len(seen.moving)} of {len(seen.moving) + len(seen.still)} ranks moved between two looks"
    if state == "ended":
        ended = sum(one.state in ("Z", "X") for one in seen.processes)
        return f"{ended} of {len(seen.processes)} ranks ended while they were looked at: the job does not hang, it ends"
    if not culprit.ranks:
        return stacks.text or flights.text or culprit.reason or "nothing could be seen of the ranks"
    parts = []
    for rank in culprit.ranks[:3]:
        suspect = next(one for one in culprit.suspects if one.rank == rank)
        parts.append(f"rank {rank}: {suspect.reasons[0].text}")
    more = f"; and {ranks_written(culprit.ranks[3:])}" if len(culprit.ranks) > 3 else ""
    return "; ".join(parts) + more


def _next(seen: Seen, state: RunState, culprit: Culprit) -> tuple[NextStep, ...]:
    if state == "ended":
        return (NextStep(text="Read what they said", kind="observe", command="preflight investigate LOGS"),)
    stopped = [one for one in seen.processes if one.state == "T"]
    steps = [
        NextStep(
            text=f"Let rank {one.rank} go on, where nobody stopped it on purpose",
            kind="act",
            command=f"kill -CONT {one.pid}",
        )
        for one in stopped
    ]
    for rank in culprit.ranks:
        process = next((one for one in seen.processes if one.rank == rank), None)
        if process is not None and process not in stopped:
            steps.append(
                NextStep(
                    text=f"Look at rank {rank} again, with native frames",
                    kind="observe",
                    command=f"py-spy dump --native --pid {process.pid}",
                )
            )
    records = any(one.variables.get("TORCH_FR_BUFFER_SIZE", "0") != "0" for one in seen.processes)
    if not seen.flights and not records and state != "running":
        steps.append(
            NextStep(
                text="Start the job with a recorder of its collectives, so that the next hang tells which call it was",
                kind="act",
                command="export TORCH_FR_BUFFER_SIZE=2000",
            )
        )
    world = next((one.world_size for one in seen.processes if one.world_size), None)
    if world and len(seen.processes) < world and state == "hung" and not seen.missing:
        steps.append(
            NextStep(
                text=f"Look at the other nodes, too: {len(seen.processes)} of {world} ranks are here",
                kind="observe",
                command="preflight investigate hang",
            )
        )
    return tuple(steps)
