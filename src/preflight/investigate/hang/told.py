"""The report of a look at a job that hangs."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.investigate.hang.judge import Judged, Seen
from preflight.investigate.hang.processes import STATES, RankProcess
from preflight.investigate.rank_evidence import ranks_written
from preflight.investigate.stacks.grouping import StackGroup
from preflight.vocabulary.report import SCHEMA, Report, Tool, Verdict
from preflight.vocabulary.version import VERSION

_FEW = 4


def report_of(judged: Judged, seen: Seen, targets: Sequence[str], *, verbose: bool = False) -> Report:
    """Return the report: GO where the job runs, NO-GO where it hangs, UNKNOWN where that cannot be told."""
    state = judged.incident.state
    verdict: Verdict = "GO" if state == "running" else "NO-GO" if state == "hung" else "UNKNOWN"
    groups = judged.stacks.groups if verbose else judged.stacks.groups[:_FEW]
    notes = [_group(group) for group in groups]
    if len(judged.stacks.groups) > len(groups):
        notes.append(f"{len(judged.stacks.groups) - len(groups)} more groups of stacks; --verbose shows them")
    if verbose:
        notes += [_rank(one, seen) for one in seen.processes]
    if judged.stacks.shared:
        notes.append(f"in common to those apart: {', '.join(judged.stacks.shared)}")
    if judged.flights.text:
        notes.append(f"Flight Recorder: {judged.flights.text}")
    return Report(
        schema=SCHEMA,
        command="investigate hang",
        tool=Tool("preflight", VERSION),
        verdict=verdict,
        inputs={
            "targets": list(targets),
            "ranks": len(seen.processes) or len({stack.who.rank for stack in seen.stacks}),
        },
        incident=judged.incident,
        notes=(*notes, *judged.flights.notes, *seen.notes),
    )


def _rank(process: RankProcess, seen: Seen) -> str:
    """Return what was seen of the process of a rank."""
    state = STATES.get(process.state, "running" if process.state == "R" else "waiting")
    between = "elsewhere at the second look" if process.rank in seen.moving else ""
    between = "in the same place at both looks" if process.rank in seen.still else between
    waits = f"in {process.waits_in}" if process.waits_in else ""
    told = (f"process {process.pid}", state, waits, between, f"{process.seconds:.1f} s of processor time")
    return f"rank {process.rank}: {', '.join(part for part in told if part)}"


def _group(group: StackGroup) -> str:
    who = ranks_written(group.ranks) if len(group.ranks) == len(group.names) else ", ".join(group.names[:6])
    many = len(group.names)
    waits = "in the backward pass" if group.backward else "in no collective"
    if group.communicating:
        waits = f"{'wait' if many > 1 else 'waits'} in a collective"
    return f"{who}: {waits}, at {group.place}"
