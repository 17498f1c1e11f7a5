"""The ranks of a distributed run: which of them are run, which needs the most memory, and whether they would wait for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from preflight.errors import InputError
from preflight.vocabulary.profile import Call, Divergence, Profile, RankSeen

if TYPE_CHECKING:
    from preflight.dryrun.launch import Job

MOST = 8
"""So many ranks are run at most."""
_LEAST = 5.0
"""Seconds without which no rank is begun."""
_NO_TIME = "the time limit was reached before it; --time-limit gives all ranks together longer"
_PAIRWISE = frozenset("send recv_ recv_any_source_ isend irecv".split())
_WHOLE = ("ended", "exited")
# The memory of a profile: of the most loaded rank it takes the place of the first one's.
_MEMORY = (
    "peak_bytes", "peak_phase", "peak_step", "reserved_bytes", "categories", "holders", "timeline", "course", "full", "growth",
    "communicators", "compiled_bytes",
)  # fmt: skip


def with_others(
    job: Job, first: Profile, differing: Mapping[str, str | None], per_node: int, until: float | None = None
) -> Profile:
    """Run the ranks that may differ from the first, and bring together what was seen.

    Args:
        job: The run of the first rank.
        first: What it saw.
        differing: The launcher's variables; those that are None differ between ranks.
        per_node: Ranks on one machine.
        until: When the time for all of them is up, on the clock of ``time.monotonic``; by default, each has the job's own.
    """
    if first.world is None or first.world < 2 or first.outcome not in (*_WHOLE, "stopped"):
        return first
    ranks = _worth_running(first)
    jobs = [_job_of(job, rank, differing, per_node) for rank in ranks]
    until = until if until is not None else time.monotonic() + job.seconds * len(jobs)
    seen = _in_order(jobs, first.messages, until) if first.messages else _together(jobs, until)
    profiles = [first, *(profile for profile in seen if profile.world is not None)]
    loaded = max(profiles, key=lambda profile: (profile.full is not None, _need(profile), -profile.rank))
    memory = {name: getattr(loaded, name) for name in _MEMORY} if loaded is not first else {}
    divergences = [found for other in profiles[1:] if (found := diverge(first, other)) is not None]
    return msgspec.structs.replace(
        first,
        **memory,
        loaded=loaded.rank,
        ranks=tuple(map(_told, [first, *seen])),
        divergences=tuple(divergences),
    )


def _worth_running(first: Profile) -> list[int]:
    """Return the last rank, and those that the script or its pipeline treats in a way of its own."""
    assert first.world is not None
    last = first.world - 1
    chosen = sorted({*first.others, last} - {first.rank})
    if len(chosen) < MOST:
        return chosen
    # Of a long pipeline: the second stage, the last but one, the last, and some between.
    step = (len(chosen) - 1) / (MOST - 2)
    return sorted({chosen[round(at * step)] for at in range(MOST - 1)} | {last})


def _job_of(job: Job, rank: int, differing: Mapping[str, str | None], per_node: int) -> Job:
    values = {
        "RANK": rank, "SLURM_PROCID": rank, "LOCAL_RANK": rank % per_node, "SLURM_LOCALID": rank % per_node,
        "NODE_RANK": rank // per_node, "GROUP_RANK": rank // per_node,
    }  # fmt: skip
    own = {name: str(values.get(name, 0)) for name, value in differing.items() if value is None}
    return msgspec.structs.replace(job, rank=rank, environment={**job.environment, **own}, snapshot=None)


def _together(jobs: Sequence[Job], until: float) -> list[Profile]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max(1, min(len(jobs), os.cpu_count() or 1))) as pool:
        return list(pool.map(lambda job: _run(job, until), jobs))


def _in_order(jobs: Sequence[Job], messages: dict[str, str], until: float) -> list[Profile]:
    """Run the stages of a pipeline one after the other: each learns its shapes from those before."""
    seen: list[Profile] = []
    for job in jobs:
        seen.append(_run(msgspec.structs.replace(job, messages=messages), until))
        messages = {**messages, **seen[-1].messages}
    return seen


def _run(job: Job, until: float) -> Profile:
    """Run one rank in the time that is left."""
    from preflight.dryrun.launch import dry_run

    left = min(job.seconds, until - time.monotonic())
    if left < _LEAST:
        return Profile(outcome="time is up", rank=job.rank, error="no run", message=_NO_TIME)
    try:
        return dry_run(msgspec.structs.replace(job, seconds=left))
    except InputError as error:
        return Profile(outcome="failed", rank=job.rank, error="no answer", message=str(error))


def _need(profile: Profile) -> int:
    return max(profile.reserved_bytes, profile.peak_bytes)


def _told(profile: Profile) -> RankSeen:
    last = profile.frames[-1] if profile.frames else None
    at = f" at {os.path.basename(last.file)}:{last.line}" if last is not None else ""
    return RankSeen(
        rank=profile.rank,
        outcome=profile.outcome,
        steps=profile.steps,
        peak_bytes=profile.peak_bytes,
        reserved_bytes=profile.reserved_bytes,
        full=profile.full is not None,
        error=f"{profile.error}{at}: {profile.message or ''}".strip(": ") if profile.error else None,
    )


def diverge(first: Profile, other: Profile) -> Divergence | None:
    """Return where two ranks, in a group to which both belong, call different collectives.

    Sends and receives are between two ranks and may differ. A rank that was stopped early may have had more to call.
    """
    steps = min(first.steps, other.steps)
    whole = first.steps == other.steps and first.outcome in _WHOLE and other.outcome in _WHOLE
    mine, others = _by_group(first), _by_group(other)
    for group in sorted({*mine, *others}):
        if first.rank not in group or other.rank not in group:
            continue
        left, right = mine.get(group, []), others.get(group, [])
        if first.steps != other.steps:
            # One of them was let go on for longer: what comes after the steps that both did says nothing.
            left, right = ([c for c in calls if c.step < steps] for calls in (left, right))
        found = _first_difference(left, right, whole)
        if found is not None:
            at = found
            calls = (left[at] if at < len(left) else None, right[at] if at < len(right) else None)
            return Divergence(ranks=(first.rank, other.rank), group=group, position=at, calls=calls)
    return None


def _by_group(profile: Profile) -> dict[tuple[int, ...], list[Call]]:
    found: dict[tuple[int, ...], list[Call]] = {}
    for call in profile.calls:
        if call.operator not in _PAIRWISE:
            found.setdefault(profile.groups[call.group], []).append(call)
    return found


def _first_difference(left: list[Call], right: list[Call], whole: bool) -> int | None:
    for at, (one, two) in enumerate(zip(left, right, strict=False)):
        # What is reduced has one size on all ranks; what is gathered may be uneven.
        if one.operator != two.operator or (one.operator == "allreduce_" and one.bytes != two.bytes):
            return at
    return min(len(left), len(right)) if whole and len(left) != len(right) else None


def notes_of(profile: Profile) -> list[str]:
    """Say which ranks were run, which needs the most, which failed, and which would wait for ever."""
    if not profile.ranks:
        return []
    from preflight.vocabulary.quantity import format_bytes

    ranks = sorted(profile.ranks, key=lambda seen: seen.rank)
    needs = {seen.rank: max(seen.reserved_bytes, seen.peak_bytes) for seen in ranks}
    listed = ", ".join(str(seen.rank) for seen in ranks[:-1]) + f" and {ranks[-1].rank}"
    said = f"ranks {listed} of {profile.world} were run"
    if len(set(needs.values())) == 1:
        notes = [f"{said}: each needs as much memory"]
    else:
        most, least = needs[profile.loaded], min(needs.values())
        notes = [
            f"{said}: rank {profile.loaded} needs the most memory, {format_bytes(most - least)} more than the least"
        ]
    notes += [f"rank {seen.rank} ended with {seen.error}" for seen in ranks if seen.error]
    for found in profile.divergences:
        one, two = (_calls(rank, call) for rank, call in zip(found.ranks, found.calls, strict=True))
        notes.append(
            f"ranks {found.ranks[0]} and {found.ranks[1]} would wait for each other for ever: after {found.position} "
            f"collectives in common, {one} and {two}"
        )
    return notes


def _calls(rank: int, call: Call | None) -> str:
    if call is None:
        return f"rank {rank} calls no more"
    return f"rank {rank} calls {call.operator.strip('_')} at {call.line or 'a place in a library'}"
