"""What log lines tell of the last calls of a rank, for ranks of which there is no dump."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from preflight.vocabulary.log import Call, Flight, Hit, Who

_LAST = re.compile(r"last enqueued(?: NCCL)? work: (-?\d+), last completed(?: NCCL)? work: (-?\d+)")
_GROUP = re.compile(r"\[PG (?:ID )?(\d+)(?: PG GUID (\w+))?\s*(?:\(([^)]*)\))?")
_RANK = re.compile(r"[Rr]ank (\d+)\]")
_WORK = re.compile(
    r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?(?:, NumelOut=(\d+))?(?:, Timeout\(ms\)=(\d+))?"
)
_AT_WORK = re.compile(r"work sequence id: (\d+)")
NUMBER_ALONE = "call"
"""The name of a call of which a line tells the number and not what it was."""


def flights_of_hits(hits: Iterable[Hit]) -> tuple[Flight, ...]:
    """Return a flight for each rank whose log names its last calls: ``last enqueued work: 7, last completed work: 6``."""
    found: dict[int, tuple[Hit, dict[str, int], dict[str, int], dict[str, str], list[Call]]] = {}
    told = [(rank, hit, text) for hit in hits for text in (hit.text, *hit.below)
            if (rank := _rank(text, hit)) is not None]  # fmt: skip
    groups = _groups(told)
    for rank, hit, text in told:
        last, work = _LAST.search(text), _WORK.search(text)
        if last or work:
            entry = found.setdefault(rank, (hit, {}, {}, {}, []))
            _take(entry, text, last, work, groups.get((rank, int(work[1]))) if work else None)
    _finish_before(tuple(found.values()))
    return tuple(
        Flight(
            who=Who(rank=rank, node=hit.who.node, attempt=hit.who.attempt),
            file=hit.file,
            enqueued=enqueued,
            completed={group: number for group, number in completed.items() if number >= 0},
            titles=titles,
            calls=tuple(calls) or _open(enqueued, completed, hit),
            wrapped=True,
            backend="nccl",
        )
        for rank, (hit, enqueued, completed, titles, calls) in sorted(found.items())
    )


def ranks_that_name_groups(hits: Iterable[Hit]) -> frozenset[int]:
    """Return the ranks whose watchdogs say which group they speak of: without it, calls of the same number need not be the same call."""
    return frozenset(
        rank
        for hit in hits
        for text in (hit.text, *hit.below)
        if (rank := _rank(text, hit)) is not None and _GROUP.search(text)
    )


def _rank(text: str, hit: Hit) -> int | None:
    """Return the rank whose watchdog speaks; None where a line tells nothing of calls."""
    if "ork" not in text:
        return None
    named = _RANK.search(text)
    return int(named.group(1)) if named else hit.who.rank


def _groups(told: Iterable[tuple[int, Hit, str]]) -> dict[tuple[int, int], str]:
    """Return the head with the group of a call, by rank and number: the first line of a watchdog names no group, the next one does."""
    found: dict[tuple[int, int], str] = {}
    for rank, _, text in told:
        group, number = _GROUP.search(text), _AT_WORK.search(text) or _WORK.search(text)
        if group and number:
            found.setdefault((rank, int(number[1])), group[0])
    return found


def _finish_before(entries: Sequence[tuple[Hit, dict[str, int], dict[str, int], dict[str, str], list[Call]]]) -> None:
    """Take all calls before the one that a watchdog names for finished, where no line tells which were.

    The watchdog looks at the oldest call first. Lines of it name no group: only where all wait in the same kind of call is it
    taken for the same group.
    """
    calls = [call for *_, mine in entries for call in mine]
    kinds = {(one.group, one.name, one.sizes) for one in calls}
    if len(kinds) != 1 or any(completed for _, _, completed, _, _ in entries):
        return
    for _, _, completed, _, mine in entries:
        completed.update({call.group: call.sequence - 1 for call in mine})


def _open(enqueued: dict[str, int], completed: dict[str, int], hit: Hit) -> tuple[Call, ...]:
    """Return the oldest call of each group that is not finished, of which only the number is known."""
    return tuple(
        Call(sequence=completed.get(group, -1) + 1, group=group, name=NUMBER_ALONE, state="scheduled", created=hit.time)
        for group, last in enqueued.items()
        if last > completed.get(group, -1)
    )


def _take(
    entry: tuple[Hit, dict[str, int], dict[str, int], dict[str, str], list[Call]],
    text: str,
    last: re.Match[str] | None,
    work: re.Match[str] | None,
    head: str | None = None,
) -> None:
    hit, enqueued, completed, titles, calls = entry
    group, title = _group(text if head is None or _GROUP.search(text) else head)
    if title:
        titles[group] = title
    if last:
        enqueued[group] = max(int(last.group(1)), enqueued.get(group, -1))
        completed[group] = max(int(last.group(2)), completed.get(group, -1))
    if work:
        number = int(work.group(1))
        enqueued[group] = max(number, enqueued.get(group, -1))
        if all(call.sequence != number or call.group != group for call in calls):
            size = ((int(work.group(3)),),) if work.group(3) else ()
            calls.append(
                Call(
                    sequence=number,
                    group=group,
                    name=_NAMES.get(work.group(2), work.group(2).lower()),
                    state="scheduled",
                    sizes=size,
                    created=hit.time,
                    timeout_ms=float(work.group(5)) if work.group(5) else None,
                )
            )


def _group(text: str) -> tuple[str, str]:
    """Return name and title of the group a line speaks of; older versions name none, which is the default group."""
    found = _GROUP.search(text)
    if not found:
        return "0", "default_pg"
    return found.group(2) or found.group(1), found.group(3) or ""


# The log names the kind of operation, a dump the function.
_NAMES = {
    "ALLREDUCE": "all_reduce",
    "BROADCAST": "broadcast",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "_all_gather_base",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "_reduce_scatter_base",
    "REDUCE": "reduce",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all",
    "BARRIER": "barrier",
    "SEND": "send",
    "RECV": "recv",
    "COALESCED": "coalesced",
}
