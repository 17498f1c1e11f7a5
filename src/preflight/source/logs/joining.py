"""Puts what the files gave together: numbers them, finds the ranks behind processes and folders, says where they are of two jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from preflight.source.logs.consoles import of_nodes
from preflight.source.logs.devices import by_device
from preflight.source.logs.named_processes import named_processes
from preflight.source.logs.naming import label
from preflight.source.logs.owners import owned
from preflight.source.logs.reduced import ROWS, Reduced
from preflight.source.logs.residue import mined
from preflight.source.logs.years import same_year
from preflight.vocabulary.log import LogFile, Reading, Unknown, Who

_Known = dict[tuple[str | None, int], Who]
_MOST_UNKNOWN = 500
_SRUN = "srun: error:"


def join(parts: Sequence[Reduced], notes: Iterable[str] = ()) -> Reading:
    """Return the reading of all files, in their order."""
    parts = owned(parts)
    parts = of_nodes([named_processes(part) for part in same_year(parts)])
    parts = _of_the_run(_agents_of_steps(parts))
    ranks = {**_ranks_of_members(parts), **_ranks_of_folders(parts)}
    known = _known(parts)
    rows: dict[str, list[Any]] = {name: [] for name in ROWS}
    files: list[LogFile] = []
    unknown: list[Unknown] = []
    for index, part in enumerate(parts):
        changed = index != part.file.index
        rank = ranks.get(index)
        for name in ROWS:
            rows[name] += _placed(getattr(part, name), index, rank, known, changed)
        unknown += [
            msgspec.structs.replace(one, first=_row(one.first, index, rank, known, {}), last=(index, one.last[1]))
            for one in part.unknown
        ]
        who = _with_rank(part.file.who, rank)
        files.append(msgspec.structs.replace(part.file, index=index, who=who))
    said = [*notes, *(note for part in parts for note in part.notes), *_jobs(parts)]
    return Reading(
        files=tuple(files),
        unknown=tuple(_merged_unknown(unknown)),
        world_size=_world_size(parts, rows),
        bytes_read=sum(file.size for file in files),
        lines_read=sum(file.lines for file in files if file.kind not in ("binary", "program")),
        notes=tuple(dict.fromkeys(said)),
        **{name: tuple(found) for name, found in rows.items()},
    )


def _placed(found: list[Any], index: int, rank: int | None, known: _Known, changed: bool) -> list[Any]:
    if not changed and rank is None and not known:
        return found
    better: dict[Who, Who] = {}
    return [_row(one, index, rank, known, better) for one in found]


def _row(row: Any, index: int, rank: int | None, known: _Known, better: dict[Who, Who]) -> Any:
    """Give a row the number of its file, and its rank where it is known now; ``better``: those of which it is, once found."""
    changes: dict[str, Any] = {}
    if getattr(row, "file", None) not in (None, index):
        changes["file"] = index
    for name in ("who", "about"):
        who = getattr(row, name, None)
        if who is None or who.rank is not None:
            continue
        if name == "who" and who in better:
            found = better[who]
        else:
            found = _resolved(who, rank if name == "who" else None, known)
            if name == "who":
                better[who] = found
        if found != who:
            changes[name] = found
    inner = getattr(row, "hit", None)
    if inner is not None:
        better_hit = _row(inner, index, rank, known, better)
        if better_hit is not inner:
            changes["hit"] = better_hit
    return msgspec.structs.replace(row, **changes) if changes else row


def _resolved(who: Who, rank: int | None, known: _Known) -> Who:
    if rank is not None:
        return _with_rank(who, rank)
    if who.pid is None:
        return who
    found = known.get((who.node, who.pid)) or known.get((None, who.pid))
    if found is None:
        return who
    return Who(
        found.rank,
        who.node or found.node,
        who.local_rank if who.local_rank is not None else found.local_rank,
        who.attempt,
        who.pid,
    )


def _with_rank(who: Who, rank: int | None) -> Who:
    return msgspec.structs.replace(who, rank=rank) if rank is not None and who.rank is None else who


def _known(parts: Sequence[Reduced]) -> _Known:
    """Return who is behind a number of a process, where lines tell both; two ranks of one number are not told apart.

    Where no line tells a rank, it is the place of the process on its node, if that is known.
    """
    found: dict[tuple[str | None, int], set[Who]] = defaultdict(set)
    tellers = [process.who for part in parts for process in part.processes]
    tellers += [ending.about for part in parts for ending in part.endings]
    for who in tellers:
        if who.pid is not None and who.rank is not None:
            bare = Who(who.rank, who.node, who.local_rank)
            found[who.node, who.pid].add(bare)
            found[None, who.pid].add(bare)
    if not found and all(hit.who.rank is None for part in parts for hit in part.hits):
        return by_device(hit for part in parts for hit in part.hits)
    return {key: next(iter(these)) for key, these in found.items() if len({who.rank for who in these}) == 1}


def _agents_of_steps(parts: Sequence[Reduced]) -> Sequence[Reduced]:
    """Return the files without the tasks of Slurm as ranks where torchrun's agents are the tasks: these tell of the ranks."""
    if not any(one.teller == "torchrun" for part in parts for one in part.endings):
        return parts
    return [
        msgspec.structs.replace(
            part,
            endings=[_as_agent(one) if one.teller == "slurm" else one for one in part.endings],
            hits=[_as_agent(one) if _SRUN in one.text else one for one in part.hits],
        )
        for part in parts
    ]


def _as_agent(row: Any) -> Any:
    about = row.about
    return row if about is None else msgspec.structs.replace(row, about=msgspec.structs.replace(about, rank=None))


def _of_the_run(parts: Sequence[Reduced]) -> Sequence[Reduced]:
    """Return the files without the ranks that processes have in groups of some ranks: NCCL counts those of each group from nought.

    More ranks than a group has are told of by the largest group, by a program, and by whoever says a rank of his own.
    """
    rows: dict[str, list[Any]] = {
        name: [row for part in parts for row in getattr(part, name)] for name in ("hits", "steps", "flights", "endings")
    }
    size = _world_size(parts, rows)
    if size is None or all(one.among in (None, size) for part in parts for one in part.processes):
        return parts
    return [
        msgspec.structs.replace(part, processes=[one for one in part.processes if (one.among or size) >= size])
        for part in parts
    ]


def _ranks_of_folders(parts: Sequence[Reduced]) -> dict[int, int]:
    """Return the rank of each file that tells only its place on its node, as torchrun's folders do.

    The lines of one rank tell where the node begins, and so does what its agent says of how its workers ended; with one agent
    alone, of which nothing is told, the place is the rank.
    """
    agents: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for index, part in enumerate(parts):
        who = part.file.who
        if who.local_rank is not None and who.rank is None and part.file.layout in ("torchrun", "rank-files"):
            agents[_folder(part), who.node].append(index)
    found: dict[int, int] = {}
    for (_, node), members in agents.items():
        bases = Counter(
            rank - (parts[index].file.who.local_rank or 0) for index in members for rank in _own_ranks(parts[index])
        )
        if bases:
            base: int | None = bases.most_common(1)[0][0]
        else:
            told = _told_bases(parts, node)
            base = next(iter(told)) if len(told) == 1 else 0 if len(agents) == 1 and not told else None
        if base is not None and base >= 0:
            found.update({index: base + (parts[index].file.who.local_rank or 0) for index in members})
    return found


def _ranks_of_members(parts: Sequence[Reduced]) -> dict[int, int]:
    """Return the rank of each member of an archive that only the names of the others tell: of files, all names are known before."""
    members = [index for index, part in enumerate(parts) if "!" in part.file.path]
    told = label([parts[index].file.path for index in members])
    return {
        index: one.who.rank
        for index, one in zip(members, told, strict=True)
        if one.who.rank is not None and parts[index].file.who.rank is None and parts[index].file.layout in ("", "slurm")
    }


def _told_bases(parts: Sequence[Reduced], node: str | None) -> set[int]:
    """Return where the ranks of a node begin by the ends that agents tell of them, with both numbers of each."""
    tellers = [ending.about for part in parts for ending in part.endings]
    return {
        who.rank - who.local_rank
        for who in tellers
        if who.rank is not None and who.local_rank is not None and (node is None or who.node in (node, None))
    }


def _folder(part: Reduced) -> str:
    path = part.file.path.replace("\\", "/")
    return path.rpartition("/attempt_")[0] if "/attempt_" in path else path.rpartition("/")[0]


def _own_ranks(part: Reduced) -> set[int]:
    """The ranks that the lines of a file of one process name as their writer."""
    rows: list[Any] = [*part.hits, *part.steps, *(one.hit for one in part.raised)]
    ranks = {row.who.rank for row in rows if row.who.rank is not None}
    ranks |= {process.who.rank for process in part.processes if process.who.rank is not None}
    return ranks if len(ranks) == 1 else set()


def _world_size(parts: Sequence[Reduced], rows: dict[str, list[Any]]) -> int | None:
    """Return the largest number of ranks that is told; those of sub-groups are smaller."""
    told: Counter[int] = Counter()
    for part in parts:
        told.update(part.world_sizes)
    seen = [row.who.rank for row in (*rows["hits"], *rows["steps"], *rows["flights"]) if row.who.rank is not None]
    seen += [part.file.who.rank for part in parts if part.file.who.rank is not None]
    seen += [ending.about.rank for ending in rows["endings"] if ending.about.rank is not None]
    most = max(seen, default=-1) + 1
    if told:
        return max(max(told), most)
    return None


def _jobs(parts: Sequence[Reduced]) -> list[str]:
    """Say where the files are those of several jobs: their names tell other jobs, and the times do not overlap."""
    spans: dict[str, tuple[float, float, int]] = {}
    for part in parts:
        if not part.job or part.file.first_time is None or part.file.last_time is None:
            continue
        first, last, count = spans.get(part.job, (part.file.first_time, part.file.last_time, 0))
        spans[part.job] = (min(first, part.file.first_time), max(last, part.file.last_time), count + 1)
    if len(spans) < 2:
        return []
    ordered = sorted(spans.items(), key=lambda item: item[1])
    apart = all(before[1][1] <= after[1][0] for before, after in pairwise(ordered))
    names = ", ".join(f"{job} ({count} files)" for job, (_, _, count) in ordered)
    when = "one after the other" if apart else "at the same time"
    return [f"files of {len(spans)} jobs, {when}: {names}"]


def _merged_unknown(found: list[Unknown]) -> list[Unknown]:
    by_template: dict[str, Unknown] = {}
    for one in found:
        other = by_template.get(one.template)
        if other is None:
            by_template[one.template] = one
            continue
        times = (other.first.time, one.first.time)
        earlier = one if times[0] is not None and times[1] is not None and times[1] < times[0] else other
        latest = min(other, one, key=lambda each: each.behind)
        by_template[one.template] = Unknown(
            template=one.template,
            count=one.count + other.count,
            ranks=tuple(sorted({*one.ranks, *other.ranks})),
            first=earlier.first,
            warning=other.warning and one.warning,
            last=latest.last,
            behind=latest.behind,
        )
    ordered = sorted(
        mined(list(by_template.values())), key=lambda one: (one.first.time is None, one.first.time or 0.0, one.template)
    )
    return ordered[:_MOST_UNKNOWN]
