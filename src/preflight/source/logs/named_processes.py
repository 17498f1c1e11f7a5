"""Processes that a program started and named itself: which rank each of them is."""

from __future__ import annotations

import re

import msgspec

from preflight.source.logs.reduced import Reduced
from preflight.vocabulary.log import Ending, Who

_NAME = re.compile(r"(.*?)[-_.]?(\d+)")
_OWN = re.compile(
    r"(?i:(?:(?:ddp|dist|train|gpu)[-_]?)?(?:rank|worker|trainer|train|replica|learner|gpu|proc|process))"
)
"""What programs call the processes that train, which they count from nought."""
_OF_RANKS = ("/torch/distributed/", "/torch/nn/parallel/")
_GIVEN = ("Process", "SpawnProcess", "ForkProcess", "ForkServerProcess")
"""What multiprocessing calls processes that nobody named; it counts them from one."""


def named_processes(part: Reduced) -> Reduced:
    """Give each end of a process that bears a name its rank, where the first one of these names is there as well.

    Without it, it is not known from where they count, and of what multiprocessing prints above a traceback nothing is kept; so
    it is where none of them was in a call of all ranks, as environments and loaders that a single process starts are not.
    """
    if not any(one.teller == "process" for one in part.endings):
        return part
    numbers: dict[str, set[int]] = {}
    for one in part.endings:
        if one.teller == "process" and (name := _NAME.fullmatch(one.about.node or "")):
            numbers.setdefault(name[1], set()).add(int(name[2]))
    bases = (
        {}
        if not _meet(part)
        else {
            stem: int(stem in _GIVEN)
            for stem, found in numbers.items()
            if len(found) > 1 and min(found) == int(stem in _GIVEN) and (stem in _GIVEN or _OWN.fullmatch(stem))
        }
    )
    endings = [told for one in part.endings if (told := _told(one, bases)) is not None]
    return msgspec.structs.replace(part, endings=endings)


def _meet(part: Reduced) -> bool:
    """Return whether what one of these processes raised came from a call that ranks make together."""
    headers = {one.line for one in part.endings if one.teller == "process"}
    return any(
        one.begins is not None
        and one.begins - 1 in headers
        and any(place in frame.path.replace("\\", "/") for frame in one.frames for place in _OF_RANKS)
        for one in part.raised
    )


def _told(one: Ending, bases: dict[str, int]) -> Ending | None:
    name = _NAME.fullmatch(one.about.node or "") if one.teller == "process" else None
    if name is None:
        return one
    pid = one.about.pid
    if name[1] in bases:
        return msgspec.structs.replace(one, about=Who(int(name[2]) - bases[name[1]], pid=pid))
    return msgspec.structs.replace(one, about=Who(pid=pid)) if pid is not None else None
