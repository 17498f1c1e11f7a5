"""Tells from the path of a file whose it is: rank, node, attempt, and of which job."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from preflight.vocabulary.log import Who

_TORCHRUN = re.compile(r"(?:^|/)(?:([^/]+)/)?attempt_(\d+)/(\d+)(?:/(?:stdout|stderr|error)\.[a-z]+|\.log|$)")
_RANK = re.compile(r"(?:^|[^a-z])(?:global[._-]?)?rank[._-]?(\d{1,6})(?!\d)", re.IGNORECASE)
_LOCAL = re.compile(r"(?:^|[^a-z])local[._-]?rank[._-]?(\d{1,3})(?!\d)", re.IGNORECASE)
_CARD = re.compile(r"(?:^|[^a-z])(?:gpu[._-]?(0?\d|1[0-5])|cuda[:._-]?(\d)(?!\.\d))(?!\d)", re.IGNORECASE)
"""A card of a machine, as files of its worker are named; ``cuda121`` and ``cuda-12.4`` are versions."""
_GPU_HOST = re.compile(
    r"(?:^|/)(gpu(?:[a-h][._-]?\d+|[._-]?0\d{2,4}|0\d|[._-]?(?!(?:128|256|512|1024|2048|4096|8192)(?!\d))[1-9]\d{2,3}))(?=$|[/._])",
    re.IGNORECASE,
)
"""A machine with cards, as clusters call it: ``gpu031``, ``gpua007``, ``gpu-104``; a power of two is as likely how many there are."""
_PADDLE = re.compile(r"(?:^|/)workerlog\.(\d{1,3})$")
"""As Paddle's launcher names the files of its workers, by their place on the node."""
_OTHER_RANK = re.compile(r"(?:local|node|machine)[._-]?rank", re.IGNORECASE)
_ATTEMPT = re.compile(r"(?:^|[^a-z])(?:attempt|restart|retry|cycle)[._-]?(\d{1,4})(?!\d)", re.IGNORECASE)
_SLURM = re.compile(r"(?:^|/)slurm-(\d+)(?:_(\d+))?(?=[.-])")
_JOB = re.compile(r"(?:^|[^a-z])job(?:[._-]?id)?[._-]?(\d{3,})(?!\d)", re.IGNORECASE)
_NODE = re.compile(
    r"(?:^|[/._@-])((?:node|host|nid|gpu-?node|compute|cn|dgx|hgx|ip|gke|aks|worker|master|launcher|server|machine)[a-z]*"
    r"[._-]?(?:[\w-]*?)\d+(?:-\d+){0,3})(?=$|[/._])",
    re.IGNORECASE,
)
_POD = re.compile(r"(?:^|/)((?:[a-z0-9]+-)+(?:worker|master|launcher|node|head|ps|trainer)-\d+)(?=$|[/._])")
_PODS = re.compile(r"(?:^|/)pods/([^/_]+)_([^/_]+)_[^/]+/[^/]+/(\d+)\.log")
_NUMBER = re.compile(r"\d+")
_RANK_BEHIND = re.compile(r"[._-](?:rank)[._-]?[1-9]\d{0,5}$", re.IGNORECASE)
"""As detectron2 and others of its kind name the files of all ranks but the first: ``log.txt.rank3`` beside ``log.txt``."""
_ENDINGS = re.compile(r"(?:\.(?:log|txt|out|err|gz|zst|bz2|xz|stdout|stderr))+$", re.IGNORECASE)


class Named(NamedTuple):
    """What the path of a file tells of it."""

    who: Who
    layout: str
    job: str


def named(path: str) -> Named:
    """Tell whose a file is by its path alone; what the path does not say is None."""
    path = path.replace("\\", "/").replace("!", "/")
    torchrun = _TORCHRUN.search(path)
    if torchrun:
        above = path[: torchrun.start()] if torchrun[1] else ""
        node = _machine(above)
        who = Who(None, node, int(torchrun[3]), int(torchrun[2]))
        return Named(who, "torchrun", torchrun[1] or "")
    pods = _PODS.search(path)
    if pods:
        return Named(Who(node=pods[2], attempt=int(pods[3])), "pod", "")
    folder, _, name = path.rpartition("/")
    rank = None if _OTHER_RANK.search(name) else _number(_RANK, name)
    rank = rank if rank is not None else _number(_RANK, "/" + folder.rpartition("/")[2])
    local = _number(_PADDLE, name)
    local = local if local is not None else _number(_LOCAL, name)
    local = local if local is not None or _GPU_HOST.search("/" + name) else _card(name)
    pod = _last(_POD, path)
    node = pod or _machine(folder if _PADDLE.search(name) else path)
    if node is not None and rank is not None and "rank" in node.lower():
        node = None  # worker_rank2.log: the writer is a rank, and nothing is said of where it runs
    slurm = _SLURM.search(path)
    job = slurm[1] if slurm else (_last(_JOB, path) or "")
    layout = "rank-files" if rank is not None or local is not None else "pod" if pod else "host-files" if node else ""
    return Named(Who(rank, node, local, _number(_ATTEMPT, path)), layout or ("slurm" if slurm else ""), job)


def numbered(paths: Sequence[str]) -> dict[str, int]:
    """Return the number of each file in a set whose names differ in one number alone, which counts 0, 1, 2 ...

    Such are the files of ``srun --output=%j_%t.out`` and of loops over ranks in a script; two files are not enough to tell
    (``train.1`` is the elder brother of ``train.0`` where logs are turned over).
    """
    sets: dict[tuple[str, ...], list[tuple[tuple[int, ...], str]]] = defaultdict(list)
    for path in paths:
        folder, _, name = path.rpartition("/")
        parts = _NUMBER.split(name)
        sets[(folder, *parts)].append((tuple(int(number) for number in _NUMBER.findall(name)), path))
    found: dict[str, int] = {}
    for members in sets.values():
        columns = list(zip(*(numbers for numbers, _ in members), strict=False))
        varying = [column for column in columns if len(set(column)) > 1]
        if len(members) >= 3 and len(varying) == 1 and sorted(varying[0]) == list(range(len(members))):
            found.update({path: number for number, (_, path) in zip(varying[0], members, strict=True)})
    return found


def label(paths: Sequence[str]) -> list[Named]:
    """Tell whose the files of a reading are, each by its path and by those of the others."""
    alone = [named(path) for path in paths]
    plain = [path for path, told in zip(paths, alone, strict=True) if told.layout in ("", "slurm")]
    counted = numbered([path for path in plain if not _rotated(path)])
    counted |= _first_ones([path for path, told in zip(paths, alone, strict=True) if told.who.rank], plain)
    around = _around(paths, [told.who.node for told in alone])
    return [
        Named(msgspec.structs.replace(told.who, rank=counted[path]), "srun-files", told.job)
        if path in counted
        else told
        if told.who.node is None or told.who.node != around
        else told._replace(who=msgspec.structs.replace(told.who, node=None))
        for path, told in zip(paths, alone, strict=True)
    ]


def _around(paths: Sequence[str], nodes: Sequence[str | None]) -> str | None:
    """Return the name that all files bear in a folder around them, where some lie in folders of machines within: it is none of a machine."""
    told = {node for node in nodes if node is not None}
    if len(told) < 2:
        return None
    return next((node for node in sorted(told) if all(f"/{node}/" in f"/{path}" for path in paths)), None)


def _first_ones(others: Sequence[str], plain: Sequence[str]) -> dict[str, int]:
    """Return the files of rank 0 that bear no rank, where those of the others have the same name and their rank behind it."""
    beside = {_RANK_BEHIND.sub("", path) for path in others if _RANK_BEHIND.search(path)}
    return {path: 0 for path in plain if path in beside}


def _rotated(path: str) -> bool:
    """Whether the number may be that of a log that was turned over (``train.log.2``)."""
    return re.search(r"\.(?:log|out|err|txt)\.\d+(?:\.gz|\.zst)?$", path) is not None


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.findall(text)
    return int(found[-1]) if found else None


def _machine(path: str) -> str | None:
    """Return the machine that a path names; the innermost one where it names several."""
    found = [told for pattern in (_NODE, _GPU_HOST) for told in pattern.finditer(path)]
    return _ENDINGS.sub("", max(found, key=lambda told: told.end(1))[1]) if found else None


def _card(name: str) -> int | None:
    """Return the number of the card that the name of a file tells."""
    found = _CARD.search(name)
    return int(found[1] or found[2]) if found else None


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return _ENDINGS.sub("", found[-1]) if found else None
