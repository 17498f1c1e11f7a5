"""Takes a line out of the JSON, or the pairs of names and values, that a container's or a program's logger wrapped it in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from preflight.source.logs.prefixes import plain

_WRAPPED = re.compile(
    r'^\{"(?:log|message|msg|time|timestamp|ts|level|stream|severity|asctime|@timestamp|text|event|rank|MESSAGE|_+[A-Z][A-Z_]*|(?:SYSLOG|CODE)_[A-Z_]+|PRIORITY)":'
)
_OBJECT = re.compile(r'^\{"[@\w./-]{1,60}": ?[\["{\w-]')
"""Any other object, which is a line of a logger where it says something, and when or how loud."""
_STRUCTURED = re.compile(r"(\S{8,40}) \[([a-z]{4,8}) *\] (?=\S)")
_BOUND = re.compile(r"[A-Za-z_][\w.]*=\S+")
"""As structlog prints to a console: when, how loud, what, and the pairs that the logger is bound to."""
_PAIRED = re.compile(r"(?:time|timestamp|ts|t|level|lvl|severity)=\S")
_PAIR = re.compile(r'(?:^|(?<= ))([A-Za-z_@][\w.@-]{0,40})=("(?:[^"\\]|\\.)*"|[^\s"]\S*)')
_DIGITS = 9
_SAID = ("message", "msg")
_RANK = ("rank", "global_rank")
_RANK_NAME = re.compile(
    r"(?:(?:global|world|dist|distributed|torch|ddp|dp|data_parallel|process|proc|worker|trainer|replica|mpi)_?)?rank"
    r"|(?:process|proc|worker|trainer|replica|task)_?(?:index|idx)"
)
"""What loggers of processes call the rank, whatever stands before the last point of the name."""
_NODE_RANK = ("node_rank", "group_rank", "machine_rank", "node_index", "node_id")
_OF_A_PROCESS = ("local_rank", "world_size", "node", "nodename", "node_name", "hostname", "host", "pid")
"""Beside one of these a rank is that of the writer wherever it stands; behind the message alone it may be that of what is told
of: a hit of a search, a low-rank adapter."""
_LABEL = re.compile(
    r"(?:[\w.-]{1,60}: )?(?:\[[A-Za-z_]{0,20}\d{1,7}(?:\|\d+)?\]:|\[(?:prte[\w.-]{0,100}@)?\d+,\d+\](?:\[[\w.:-]{1,120}\])?<std\w+>: ?|\d{1,7}: ?|[A-Za-z][\w.-]{0,60}[-_]\d{1,7} +\| )(?=\{\")"
)
"""A rank, a place, a task or a container, as launchers put them before each line."""
_LATEST = 100
_MESSAGE = (
    "log",
    "message",
    "msg",
    "text",
    "event",
    "MESSAGE",
    "body",
    "Body",
    "textPayload",
    "short_message",
    "@message",
)
_RAISED = ("exc", "exc_info", "exception", "traceback", "stack_trace", "stack_info", "error.stack_trace")
"""Where loggers put the traceback of an exception."""
_WHEN = ("time", "timestamp", "ts", "t", "@timestamp", "asctime", "Timestamp", "datetime", "created")
_LEVEL = ("level", "severity", "levelname", "lvl", "log.level", "SeverityText", "loglevel", "severity_text")
_NODE = (
    "node",
    "nodeName",
    "node_name",
    "nodename",
    "hostname",
    "host",
    "_HOSTNAME",
    "host_name",
    "host.name",
    "machine",
    "pod_name",
    "pod",
    "compute.googleapis.com/resource_name",
    "instance_id",
)
_PAYLOAD = "jsonPayload"
"""Where Google's logging puts the fields of a program that it collects; what it adds itself stands beside them."""
_PARTS_OF_SECONDS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""A time that is larger than the first counts so many parts of a second."""
_RAISES = "Traceback (most recent call last)"
_JOURNAL_TIME = ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")
"""Millionths of seconds, as letters."""
_JOURNAL_PID = "_PID"

_STEPS = frozenset(("step", "global_step", "iteration", "iter", "train_step"))
_COUNTED = frozenset((int, float))
_NO_VALUES = frozenset((*_WHEN, *_RANK, *_OF_A_PROCESS, "level", "lvl", "line", "lineno", "thread", "process"))
"""Numbers that say who speaks, when and from where."""
_HOST = re.compile(r"[A-Za-z0-9][\w.-]{0,100}")
_WITHIN = 4
"""So deep an event may lie in what a logger says of it."""


class _Names(NamedTuple):
    """Which fields of a line may say what, each in the order in which it is asked; a logger gives the same names to all lines.

    Attributes:
        message: What was said.
        when: The time.
        raised: A traceback.
        level: How loud it was said; empty where no field has such a name.
        rank: The rank, by its usual name; empty where no field has it.
        ranks: Other fields that may mean the rank.
        machine: Some field names the node or the place on it.
        numbers: Fields of a line of a step that may be its numbers; none where no field is that of a step.
    """

    message: tuple[str, ...]
    when: tuple[str, ...]
    raised: tuple[str, ...]
    level: str
    rank: str
    ranks: tuple[str, ...]
    machine: bool
    numbers: tuple[str, ...]


@lru_cache(maxsize=1024)
def _names_of(fields: tuple[str, ...]) -> _Names:
    """Return what the fields of a line may say by their names."""
    there = frozenset(fields)
    return _Names(
        tuple(key for key in _MESSAGE if key in there),
        tuple(key for key in _WHEN if key in there),
        tuple(key for key in _RAISED if key in there),
        next((key for key in _LEVEL if key in there), ""),
        next((key for key in _RANK if key in there), ""),
        tuple(key for key in fields if _means_rank(key)),
        not there.isdisjoint((*_NODE, *_NODE_RANK, "local_rank")),
        () if _STEPS.isdisjoint(there) else tuple(key for key in fields if key not in _NO_VALUES),
    )


def unwrapped(text: str) -> str:
    """Return a line that a container's or a program's logger wrapped in JSON or in pairs as it would stand in a plain log.

    What a launcher put before it stays there.
    """
    if text[:2] != '{"' and '{"' in text[:_LATEST]:
        label = _LABEL.match(text)
        return label[0] + unwrapped(text[label.end() :]) if label else text
    found = _of_journal(_fields(text))
    if not found:
        return text
    names = _names_of(tuple(found))
    message = _first(found, names.message, str)
    if message is None:
        return text
    nested = dict in map(type, found.values())
    rank = _rank_of(found, names, nested)
    level = found[names.level] if names.level else None
    raised = [found[key] for key in names.raised if isinstance(found[key], str) and found[key].strip()]
    if not raised:
        raised = [one for one in found.values() if isinstance(one, str) and _RAISES in one and one != message]
    if raised:  # its breaks as letters, as a traceback stands in one line
        message = message.rstrip() + " " + raised[0].rstrip().replace("\n", "\\n")
    within = _event_within(found) if nested else {}
    parts = [
        _when(_first(found, names.when, (str, int, float))),
        _machine(found, within) if nested or names.machine else "",
        f"[rank{rank}]:" if rank is not None else "",
        level.upper() if isinstance(level, str) else "",
        plain(message.rstrip("\r\n")).replace("\n", " "),
        msgspec.json.encode(within).decode() if within else "",
        _rest(text, found) if text[:1] != "{" else _numbers(found, names, nested),
    ]
    return " ".join(filter(None, parts))


def _first(found: dict[str, Any], names: tuple[str, ...], kind: type | tuple[type, ...]) -> Any:
    """Return the first of some fields that is of a kind; None where none is."""
    for name in names:
        if isinstance(found[name], kind):
            return found[name]
    return None


def _when(when: str | float | None) -> str:
    """Return when a line was written: seconds also where they are counted in thousandths, millionths or billionths."""
    if isinstance(when, (int, float)) and not isinstance(when, bool):
        per = next((parts for least, parts in _PARTS_OF_SECONDS if when > least), 1.0)
        return f"{when / per:.6f}" if per != 1.0 else str(when)
    return "" if when is None else str(when)


def _rank_of(found: dict[str, Any], names: _Names, nested: bool) -> int | None:
    """Return the rank that the fields of a line name: by its usual name, or else by the only other one that means it."""
    if names.rank:
        return _number(found[names.rank])
    if not nested:
        told = {_number(found[key]) for key in names.ranks}
    else:
        told = {_number(value) for key, value in _leaves(found) if _means_rank(key)}
    told.discard(None)
    return told.pop() if len(told) == 1 else None


def _means_rank(name: str) -> bool:
    """Return whether a field is called by one of the names that loggers of processes give the rank."""
    return _RANK_NAME.fullmatch(name.rpartition(".")[2].replace("-", "_").lower()) is not None


def _leaves(found: dict[str, Any], depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a line and those within them."""
    for key, value in found.items():
        if isinstance(value, dict):
            yield from _leaves(value, depth - 1) if depth else ()
        else:
            yield key, value


def _number(value: object) -> int | None:
    """Return the number of a process, which some write as letters."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS:
        return int(value)
    return value if isinstance(value, int) and _counts(value) else None


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of a line in JSON, or of one in the form ``level=info rank=3 msg="..."``; empty for any other line."""
    if text[:2] == '{"' and _WRAPPED.match(text):
        try:
            found: dict[str, Any] = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return {}
        return found
    if text[:2] == '{"' and _OBJECT.match(text):
        return _of_logger(text)
    if (structured := _STRUCTURED.match(text)) is not None and (told := _without_bound(text, structured.end())):
        bound = {key: _value(value) for key, value in _PAIR.findall(text, structured.end() + len(told))}
        return {"time": structured[1], "level": structured[2], "message": told.rstrip(), **bound}
    if text[:1] not in "lst" or not _PAIRED.match(text):  # with what the names begin: most lines are told so
        return {}
    pairs: dict[str, Any] = {key: _value(value) for key, value in _PAIR.findall(text)}
    if not any(isinstance(pairs.get(key), str) for key in _SAID):
        return {}
    if not any(key in pairs for key in _OF_A_PROCESS):
        order = list(pairs)
        said = min(order.index(key) for key in _SAID if key in pairs)
        pairs = {key: value for at, (key, value) in enumerate(pairs.items()) if at < said or key not in _RANK}
    return pairs


def _without_bound(text: str, start: int) -> str:
    """Return what a line says from a place on to the pairs at its end, with the blanks between; empty where it has none.

    The pairs are looked at from the end on: each once, however many of them there are.
    """
    end = behind = len(text.rstrip())
    while (blank := text.rfind(" ", start, end)) >= start and _BOUND.fullmatch(text, blank + 1, end):
        behind = blank + 1
        end = blank
        while end > start and text[end - 1] == " ":
            end -= 1
    return text[start:behind] if behind < len(text.rstrip()) else ""


def _of_logger(text: str) -> dict[str, Any]:
    """Return the fields of an object that a logger wrote: it says something, and when or how loud; empty for any other one."""
    try:
        found: dict[str, Any] = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    if isinstance(payload := found.get(_PAYLOAD), dict):
        found = {key: value for key, value in (*found.items(), *payload.items()) if key != _PAYLOAD}
    said = any(isinstance(found.get(key), str) for key in _MESSAGE)
    return found if said and any(key in found for key in (*_WHEN, *_LEVEL)) else {}


def _of_journal(found: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry of the journal of systemd as those of a logger; any others as they are."""
    if "MESSAGE" not in found:
        return found
    said = found["MESSAGE"]
    if isinstance(said, list):  # what is no UTF-8, or bears colours, is written as bytes
        said = bytes(one for one in said if isinstance(one, int) and 0 <= one < 256).decode("utf-8", "replace")
    pid = found.get(_JOURNAL_PID)
    before = f"[pid {pid}] " if isinstance(pid, str) and pid.isdecimal() else ""
    stamp = next((found[key] for key in _JOURNAL_TIME if str(found.get(key, "")).isdecimal()), None)
    when = {} if stamp is None else {"time": f"{int(stamp) / 1e6:.6f}"}
    return {**found, **when, "MESSAGE": f"{before}{said}"} if isinstance(said, str) else found


def _rest(text: str, found: dict[str, Any]) -> str:
    """Return the pairs of a line that say something beside its message: steps and their numbers stand in them."""
    taken = {*_WHEN, *_NODE, *_SAID, "level", "lvl", "severity", "rank", "global_rank", "local_rank"}
    return " ".join(f"{key}={value}" for key, value in _PAIR.findall(text) if key not in taken or key not in found)


def _numbers(found: dict[str, Any], names: _Names, nested: bool) -> str:
    """Return the numbers that stand beside the message in the fields of a line of a step, or one level below, as pairs."""
    if not nested:
        return " ".join([f"{key}={found[key]}" for key in names.numbers if type(found[key]) in _COUNTED])
    every = {key: value for one in found.values() if type(one) is dict for key, value in one.items()} | found
    return " ".join([f"{key}={every[key]}" for key in _names_of(tuple(every)).numbers if type(every[key]) in _COUNTED])


def _value(text: str) -> str | int:
    if text[:1] != '"':
        return int(text) if text.isdecimal() and len(text) <= _DIGITS else text
    try:
        return str(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError):
        return text[1:-1]


def _event_within(found: dict[str, Any], depth: int = _WITHIN) -> dict[str, Any]:
    """Return the event that a line hands on, where it has words of its own; empty where there is none."""
    for value in found.values():
        if not isinstance(value, dict):
            continue
        if any(isinstance(value.get(key), str) for key in _MESSAGE):
            return value
        deeper = _event_within(value, depth - 1) if depth else {}
        if deeper:
            return deeper
    return {}


def _machine(*told: dict[str, Any]) -> str:
    """Return the node and the place on it that a line's fields name as labels; what the event that it hands on names counts first."""
    fields = {key: value for one in told for key, value in one.items()}
    leaves = dict(_leaves(fields))
    name = next(
        (
            value
            for key in _NODE
            if isinstance(value := fields.get(key, leaves.get(key)), str) and _HOST.fullmatch(value)
        ),
        None,
    )
    if (
        name is None
        and (number := next((leaves[key] for key in _NODE_RANK if _counts(leaves.get(key))), None)) is not None
    ):
        name = f"node{number}"
    place = leaves.get("local_rank")
    labels = (f"[node {name}]" if name is not None else "", f"[local_rank {place}]" if _counts(place) else "")
    return " ".join(label for label in labels if label)


def _counts(value: object) -> bool:
    """Return whether a value numbers a process."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
