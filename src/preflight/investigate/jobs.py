"""Several jobs in what was given: told apart by the names of the files, each judged by itself."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec

from preflight.investigate.judge import judge
from preflight.source.logs.naming import Named, named
from preflight.vocabulary.incident import Incident, Job
from preflight.vocabulary.log import LogFile, Reading, Who
from preflight.vocabulary.signature import Signature

# A folder of this name holds a part of a run, and no other run.
_PART = re.compile(
    r"(?:attempt|restart|retry|cycle|node|host|nid|gpu|dgx|rank|worker|master|pod|machine|server|stdout|stderr|out|err|output|error|trace|dump|stack|logs?|epoch|phase|stage)"
    r"s?[._-]?\d*$|^(?!run|job|exp|trial|sweep|version|seed|fold|model)[a-z][a-z-]*\d{3,}(?:[.-][\w.-]*)?$|^\d{1,2}$|(?:^|[._-])(?:node|host|nid|worker|master|rank|ip|cn|dgx|gpu)[\w-]*\d+$",
    re.IGNORECASE,
)
# torchrun puts the eight letters of a temporary folder, which may be underscores, behind the id of the run.
_RUN_OF_AGENT = re.compile(r"^(?P<id>.+)_[a-z0-9_]{8}$")
_OTHER_THAN_LOGS = ("kernel", "scheduler", "device", "environment")
ALIKE = 0.5


def judged_by_job(reading: Reading, signatures: Iterable[Signature]) -> Incident:
    """Return what happened; of several jobs that which matters most, with a line on each of them."""
    known = tuple(signatures)
    jobs = jobs_of(reading.files, _speakers(reading))
    if len(jobs) < 2:
        return judge(reading, known)
    mine = {index for files in jobs.values() for index in files}
    common = {file.index for file in reading.files} - mine
    judged = [(name, files, judge(_part(reading, files | common), known)) for name, files in jobs.items()]
    judged.sort(key=lambda one: _span(reading, one[1]))
    shown = _which(reading, judged)
    told = tuple(_told(name, len(files), incident, incident is shown) for name, files, incident in judged)
    return msgspec.structs.replace(shown, jobs=told)


def _speakers(reading: Reading) -> dict[int, int]:
    """Return of each file in which one rank alone speaks which that is, as its lines say."""
    said: dict[int, set[int]] = {}
    lines = [(one.file, one.who.rank) for one in reading.hits] + [(one.file, one.who.rank) for one in reading.steps]
    for file, rank in lines:
        if rank is not None:
            said.setdefault(file, set()).add(rank)
    return {file: next(iter(ranks)) for file, ranks in said.items() if len(ranks) == 1}


def jobs_of(files: Sequence[LogFile], speakers: Mapping[int, int] | None = None) -> dict[str, set[int]]:
    """Return the files of each job by its name; of one job, or where nothing tells, nothing.

    Args:
        files: What was given.
        speakers: The rank that the lines of a file say it is, by file, where its name says none.
    """
    logs = [file for file in files if file.kind not in _OTHER_THAN_LOGS]
    told = {file.index: named(file.path) for file in logs}
    # The names that a scheduler gives and those that torchrun does are of one run side by side: they are not compared.
    by_scheduler, by_launcher = (_by_name(logs, told, torchrun=torchrun) for torchrun in (False, True))
    for found in (by_scheduler, by_launcher, _by_folder(files, told, speakers or {})):
        if len(found) > 1:
            return found
    return {}


def _by_name(logs: Sequence[LogFile], told: Mapping[int, Named], *, torchrun: bool) -> dict[str, set[int]]:
    """Return the files of each job that paths name in the way of torchrun, or in another one."""
    found: dict[str, set[int]] = {}
    for file in logs:
        if (told[file.index].layout == "torchrun") == torchrun and (name := _name(told[file.index])):
            found.setdefault(name, set()).add(file.index)
    return found


def _name(told: Named) -> str:
    """Return the job that a path names; agents of one job add letters of their own to its name."""
    if told.layout != "torchrun":
        return told.job
    agent = _RUN_OF_AGENT.match(told.job)
    return agent["id"] if agent else ""


def _by_folder(files: Sequence[LogFile], told: Mapping[int, Named], speakers: Mapping[int, int]) -> dict[str, set[int]]:
    """Return the files of each folder where several hold the same ranks: one run has each rank once.

    Whose folder holds logs of a job holds also what else there is of it: what the launcher wrote, dumps, the kernel's log.
    """
    logs = [file for file in files if file.kind == "text"]
    parts = {file.index: _folders(file.path) for file in files}
    depth = _first_difference([parts[file.index] for file in logs])
    ranks: dict[str, set[Hashable]] = {}
    for file in logs:
        folders, who = parts[file.index], told[file.index].who
        if len(folders) <= depth or _PART.search(folders[depth]) or who.attempt:
            continue
        rank = _rank(who, speakers.get(file.index))
        if rank is not None:
            ranks.setdefault(folders[depth], set()).add(rank)
    several = {name: has for name, has in ranks.items() if len(has) > 1}
    twice = {
        name
        for name, has in several.items()
        if any(
            other != name and len(has & those) > ALIKE * min(len(has), len(those)) for other, those in several.items()
        )
    }
    return {
        name: {file.index for file in files if len(at := parts[file.index]) > depth and at[depth] == name}
        for name in sorted(twice)
    }


def _rank(who: Who, speaks: int | None) -> Hashable:
    """Return what is there once in a run: a rank, or what counts the ranks of a node that has a name; None: not known."""
    if who.rank is not None or speaks is not None:
        return who.rank if who.rank is not None else speaks
    return None if who.node is None or who.local_rank is None else (who.node, who.local_rank)


def _folders(path: str) -> tuple[str, ...]:
    return tuple(path.replace("\\", "/").replace("!", "/").split("/")[:-1])


def _first_difference(paths: Sequence[tuple[str, ...]]) -> int:
    depth = 0
    while paths and all(len(path) > depth for path in paths) and len({path[depth] for path in paths}) == 1:
        depth += 1
    return depth


def _part(reading: Reading, files: set[int]) -> Reading:
    """Return what was read of some files."""
    world = reading.world_size
    seen = [one.who.rank for one in reading.spoke if one.file in files]
    seen += [file.who.rank for file in reading.files if file.index in files]
    seen += [hit.who.rank for hit in reading.hits if hit.file in files]
    most = 1 + max((rank for rank in seen if rank is not None), default=-1)
    return msgspec.structs.replace(
        reading,
        files=tuple(file for file in reading.files if file.index in files),
        hits=tuple(one for one in reading.hits if one.file in files),
        raised=tuple(one for one in reading.raised if one.hit.file in files),
        steps=tuple(one for one in reading.steps if one.file in files),
        endings=tuple(one for one in reading.endings if one.file is None or one.file in files),
        flights=tuple(one for one in reading.flights if one.file in files),
        stacks=tuple(one for one in reading.stacks if one.file is None or one.file in files),
        events=tuple(one for one in reading.events if one.hit.file in files),
        environments=tuple(one for one in reading.environments if one.file is None or one.file in files),
        unknown=tuple(one for one in reading.unknown if one.first.file in files),
        spoke=tuple(one for one in reading.spoke if one.file in files),
        # The sizes that the jobs tell are not kept apart: one that is larger than what is seen may be another job's.
        world_size=world if world is None or most >= world else most or None,
    )


def _span(reading: Reading, files: set[int]) -> tuple[float, float]:
    """Return when a job began and ended, by the times in its files."""
    mine = [file for file in reading.files if file.index in files]
    first = min((file.first_time for file in mine if file.first_time is not None), default=float("inf"))
    return first, max((file.last_time for file in mine if file.last_time is not None), default=float("-inf"))


def _which(reading: Reading, judged: Sequence[tuple[str, set[int], Incident]]) -> Incident:
    """Return the incident to be shown: the last failure that no later job followed, else the last job."""
    spans = [_span(reading, files) for _, files, _ in judged]
    last = [
        one
        for one, span in zip(judged, spans, strict=True)
        if not any(later[0] > span[1] and later != span for later in spans)
    ]
    failed = [incident for _, _, incident in last or judged if incident.category != "none"]
    return failed[-1] if failed else (last or judged)[-1][2]


def _told(name: str, files: int, incident: Incident, shown: bool) -> Job:
    return Job(name=name, files=files, state=incident.state, category=incident.category, confidence=incident.confidence,
               ranks=incident.culprit.ranks, nodes=incident.culprit.nodes, headline=incident.headline, shown=shown)  # fmt: skip
