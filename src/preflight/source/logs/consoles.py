"""Which node a console is of: what its own agent's tables name, and how those of the others are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec

from preflight.source.logs.reduced import ROWS, Reduced
from preflight.vocabulary.log import Who

_NUMBER = re.compile(r"\d+")
_OF_ANY = frozenset({"localhost", "localhost.localdomain", "127.0.0.1"})
"""What an agent calls its machine where it cannot find out its name: every machine is called so."""


def of_nodes(parts: Sequence[Reduced]) -> list[Reduced]:
    """Give each console the node that it is of."""
    return _named_alike(_without_names([_on_host(part) for part in parts]))


def _hosts_of(part: Reduced) -> set[str]:
    """Return the machines that the tables of an agent name in its own console."""
    return {ending.about.node for ending in part.endings if ending.teller == "torchrun" and ending.about.node}


def _on_host(part: Reduced) -> Reduced:
    """Return a part with the node that its own agent's tables name, where the name of the file says otherwise."""
    hosts = _hosts_of(part) - {part.file.who.node}
    told = part.file.who.node
    if told is None or len(hosts) != 1:
        return part
    return _renamed_all(part, told, next(iter(hosts)))


def _without_names(parts: list[Reduced]) -> list[Reduced]:
    """Tell apart the consoles of agents that do not know what their machines are called, by the names of their files.

    They are of several agents where each tells of ranks of which no other one tells.
    """
    found = [part for part in parts if (hosts := _hosts_of(part)) and hosts <= _OF_ANY]
    names = {part.file.path: _place(part)[1] for part in found}
    one_each = len(found) == len(set(names.values()))
    if len(found) < 2 or not one_each or any(one & other for one, other in combinations(map(_ranks_of, found), 2)):
        return parts
    return [
        _renamed_all(part, next(iter(_hosts_of(part))), names[part.file.path]) if part.file.path in names else part
        for part in parts
    ]


def _ranks_of(part: Reduced) -> set[int | None]:
    """Return the ranks of which the tables of an agent tell."""
    return {ending.about.rank for ending in part.endings if ending.teller == "torchrun" and ending.about.node}


def _named_alike(parts: list[Reduced]) -> list[Reduced]:
    """Give consoles their nodes where each is called as a machine: that of one of them is the one that its agent names.

    An agent that dies with its node, or is told to stop, prints no table: ``gn-17.log`` beside ``gn-11.log``, whose agent says
    that it runs on ``gn-11``.
    """
    behind: dict[tuple[str, ...], str] = {}
    for part in parts:
        hosts = _hosts_of(part)
        folder, name = _place(part)
        host = next(iter(hosts)) if len(hosts) == 1 else ""
        if _NUMBER.search(name) and (host == name or host.startswith(name + ".")):
            behind[(folder, *_NUMBER.split(name))] = host.removeprefix(name)
    return [_named(part, behind) for part in parts] if behind else parts


def _named(part: Reduced, behind: dict[tuple[str, ...], str]) -> Reduced:
    who = part.file.who
    folder, name = _place(part)
    domain = behind.get((folder, *_NUMBER.split(name)))
    if domain is None or who.local_rank is not None or _hosts_of(part) - {name + domain}:
        return part
    # What the name of the file, or of a folder, tells may be a part of what the machine is called.
    if who.node is not None:
        return _renamed_all(part, who.node, name + domain)
    file = msgspec.structs.replace(part.file, who=msgspec.structs.replace(who, node=name + domain, rank=None))
    return msgspec.structs.replace(part, file=file)


def _place(part: Reduced) -> tuple[str, str]:
    """Return the folder of a file, and its name up to the first point."""
    folder, _, name = part.file.path.replace("\\", "/").rpartition("/")
    return folder, name.partition(".")[0]


def _renamed_all(part: Reduced, told: str, host: str) -> Reduced:
    if told == host:
        return part
    rows: dict[str, Any] = {"file": msgspec.structs.replace(part.file, who=_moved(part.file.who, told, host))}
    for name in ROWS:
        rows[name] = [_renamed(row, told, host) for row in getattr(part, name)]
    return msgspec.structs.replace(part, **rows)


def _renamed(row: Any, told: str, host: str) -> Any:
    changes: dict[str, Any] = {
        name: _moved(who, told, host)
        for name in ("who", "about")
        if (who := getattr(row, name, None)) is not None and who.node == told
    }
    inner = getattr(row, "hit", None)
    if inner is not None:
        changes["hit"] = _renamed(inner, told, host)
    return msgspec.structs.replace(row, **changes) if changes else row


def _moved(who: Who, told: str, host: str) -> Who:
    return msgspec.structs.replace(who, node=host) if who.node == told else who
