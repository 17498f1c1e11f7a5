"""Flight Recorder dumps of torch: pickle and JSON, NCCL and gloo, whole, cut off or wrapped, of format 1 to 2.10.

What differs between the versions: a bare list of calls before there were versions; ``seq_id`` before collectives and
point-to-point calls were counted apart; ``pg_id`` alone before groups had names; JSON writes numbers as words, zero for a
time that is not known, and no stacks. Gloo leaves ``pg_config`` empty and a finished call ``scheduled`` but retired.
"""

from __future__ import annotations

import re
from typing import Any

from preflight.source.dumps.part import Part
from preflight.vocabulary.log import Call, Flight, Frame, LogFile, Who

KIND = "flight"

_NAMES = re.compile(r"(?i)nccl_trace|fr_trace|flight|fr_dump|_dump_\d+$|trace_rank|comm_lib_trace")
_RANK = re.compile(r"(?i)(?:rank|dump|trace)[_.-]?(\d+)(?:\D{0,12})?$")
_PEERS = re.compile(r"(\d+)\s*(->|<-)\s*(\d+)")


def looks_like(name: str, head: bytes) -> bool:
    """Tell a dump by the keys that stand at its beginning; any pickle that bears the name of one is read as one."""
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return b"pg_config" in head or b"profiling_name" in head or _NAMES.search(name) is not None
    start = head.lstrip()[:1]
    if start not in (b"{", b"["):
        return False
    keys = (b'"pg_config"', b'"collective_seq_id"', b'"profiling_name"', b'"pg_status"')
    return sum(key in head for key in keys) >= 2 or (b'"entries"' in head and b'"collective_seq_id"' in head)


def read(content: bytes, file: LogFile) -> Part:
    """Read what the recorder of one rank held."""
    loaded, problem = _load(content)
    if not isinstance(loaded, (dict, list)):
        return Part(problem=problem or "a dump without anything in it")
    dump = loaded if isinstance(loaded, dict) else {"entries": loaded}
    entries = [entry for entry in _list(dump.get("entries")) if isinstance(entry, dict)]
    groups, titles = _groups(dump)
    rank = _rank(dump, file, groups)
    calls = tuple(call for call in (_call(entry, groups) for entry in entries) if call is not None)
    for entry in entries:
        group = entry.get("process_group")
        if isinstance(group, (list, tuple)) and len(group) == 2 and str(group[1]) not in ("", "undefined"):
            titles.setdefault(str(group[0]), str(group[1]))
    status = _status(dump, entries)
    backend = next((str(entry.get("profiling_name", "")).partition(":")[0] for entry in entries), "")
    calls = tuple(_ended(call, entry, status) for call, entry in zip(calls, entries, strict=False))
    enqueued, started, completed = _progress(calls, status, backend)
    records = [entry["record_id"] for entry in entries if isinstance(entry.get("record_id"), int)]
    if problem is None and not entries and not dump.get("pg_config") and not dump.get("pg_status"):
        problem = "the recorder held no call; it records where TORCH_FR_BUFFER_SIZE is above 0"
    flight = Flight(
        who=Who(
            rank=rank,
            node=file.who.node,
            local_rank=file.who.local_rank,
            attempt=file.who.attempt,
            pid=file.who.pid,
        ),
        file=file.index,
        groups=groups,
        calls=calls,
        enqueued=enqueued,
        started=started,
        completed=completed,
        wrapped=bool(records) and min(records) > 0,
        problem=problem,
        backend=backend,
        titles=titles,
    )
    times = [call.created for call in calls if call.created is not None]
    return Part(
        who=flight.who,
        problem=problem,
        flights=(flight,),
        first_time=min(times, default=None),
        last_time=max(times, default=None),
        world_size=_world(groups, titles),
    )


def _load(content: bytes) -> tuple[Any, str | None]:
    if content[:1] == b"\x80":
        from preflight.source.dumps.pickled import unpickle

        got = unpickle(content)
        return got.value, got.problem
    import json

    try:
        return json.loads(content.decode("utf-8", "replace")), None
    except (ValueError, RecursionError) as error:
        from preflight.source.dumps.cut_json import salvage

        return salvage(content.decode("utf-8", "replace")), f"not whole JSON: {error}"


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _int(value: Any) -> int | None:
    """Return a number that may be written as a word; None for what is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value)
    if isinstance(value, str) and len(value) <= 20 and value.strip().lstrip("-").isdigit():
        return int(value)
    return None


def _groups(dump: dict[Any, Any]) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    groups: dict[str, tuple[int, ...]] = {}
    titles: dict[str, str] = {}
    config = dump.get("pg_config")
    for name, one in config.items() if isinstance(config, dict) else ():
        if not isinstance(one, dict):
            continue
        ranks = one.get("ranks")
        words = re.findall(r"\d+", ranks) if isinstance(ranks, str) else _list(ranks)
        members = tuple(number for number in map(_int, words) if number is not None)
        # Gloo writes one group without a name, whose members are those of whoever dumps.
        if members and str(name):
            groups[str(name)] = members
            title = str(one.get("desc") or "")
            if title not in ("", "undefined"):
                titles[str(name)] = title
    return groups, titles


def _rank(dump: dict[Any, Any], file: LogFile, groups: dict[str, tuple[int, ...]]) -> int | None:
    told = _int(dump.get("rank"))
    if told is not None:
        return told
    named = _RANK.search(file.path.replace("\\", "/").rpartition("/")[2])
    if named:
        return int(named.group(1))
    if file.who.rank is not None:
        return file.who.rank
    # Whoever dumps is a member of each of its groups: often one rank alone is in all of them.
    common = set.intersection(*map(set, groups.values())) if groups else set()
    return common.pop() if len(common) == 1 else None


def _world(groups: dict[str, tuple[int, ...]], titles: dict[str, str]) -> int | None:
    whole = [len(members) for name, members in groups.items() if titles.get(name) == "default_pg"]
    return whole[0] if whole and whole[0] > 1 else None


def _group_name(entry: dict[Any, Any]) -> str:
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)) and group:
        return str(group[0])
    if group is None:
        group = entry.get("pg_name", entry.get("pg_id", ""))
    return str(group)


def _call(entry: dict[Any, Any], groups: dict[str, tuple[int, ...]]) -> Call | None:
    name = str(entry.get("profiling_name") or "")
    plain = name.partition(":")[2] or name
    group = _group_name(entry)
    members = groups.get(group, ())
    source, destination = _peers(plain, members)
    word = plain.split(" ")[0]
    peer_to_peer = bool(entry.get("is_p2p")) or word in ("send", "recv")
    both = ("p2p_seq_id", "collective_seq_id") if peer_to_peer else ("collective_seq_id", "p2p_seq_id")
    sequence = next(
        (number for number in (_int(entry.get(key)) for key in (*both, "seq_id")) if number is not None), None
    )
    if sequence is None:
        sequence = -1
    return Call(
        sequence=sequence,
        group=group,
        name=word,
        state=str(entry.get("state") or ""),
        peer_to_peer=peer_to_peer,
        sizes=_sizes(entry.get("input_sizes")),
        dtypes=tuple(str(one) for one in _list(entry.get("input_dtypes"))),
        output_sizes=_sizes(entry.get("output_sizes")),
        created=_seconds(entry.get("time_created_ns")),
        started=_seconds(entry.get("time_discovered_started_ns")),
        completed=_seconds(entry.get("time_discovered_completed_ns")),
        frames=_frames(entry.get("frames")),
        source=source,
        destination=destination,
        timeout_ms=_int(entry.get("timeout_ms")),
        operation=_int(entry.get("op_id")),
    )


def _peers(name: str, members: tuple[int, ...]) -> tuple[int | None, int | None]:
    """Return who sends and who receives; a dump counts ranks within the group."""
    found = _PEERS.search(name)
    if not found:
        return None, None
    here, there = int(found.group(1)), int(found.group(3))
    if members:
        here = members[here] if here < len(members) else here
        there = members[there] if there < len(members) else there
    return (here, there) if found.group(2) == "->" else (there, here)


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    rows = _list(value)
    return tuple(tuple(number for number in map(_int, _list(row)) if number is not None) for row in rows)


def _seconds(value: Any) -> float | None:
    number = _int(value)
    return number / 1e9 if number else None


def _frames(value: Any) -> tuple[Frame, ...]:
    return tuple(
        Frame(str(one.get("filename") or ""), _int(one.get("line")), str(one.get("name") or ""))
        for one in _list(value)
        if isinstance(one, dict)
    )


def _status(dump: dict[Any, Any], entries: list[dict[Any, Any]]) -> dict[str, dict[str, int]]:
    """Return the last numbers of each group by its name, where the dump lets a group be told."""
    status = dump.get("pg_status")
    if not isinstance(status, dict):
        return {}
    names = _names_by_number(dump, status, entries)
    told: dict[str, dict[str, int]] = {}
    for key, one in status.items():
        name = names.get(str(key))
        if name is not None and isinstance(one, dict):
            numbers = ((str(word), _int(value)) for word, value in one.items())
            told[name] = {word: number for word, number in numbers if number is not None}
    return told


def _names_by_number(dump: dict[Any, Any], status: dict[Any, Any], entries: list[dict[Any, Any]]) -> dict[str, str]:
    """Return the name of a group by the number that its rank gave it.

    The calls bear both. A rank that waits for nothing has no calls, and is the one that matters: names and numbers are both
    counted up as groups are made, so that equally many of them pair in order, unless a call says otherwise.
    """
    seen = {str(entry["pg_id"]): _group_name(entry) for entry in entries if "pg_id" in entry}
    config = dump.get("pg_config")
    names = [str(name) for name in config] if isinstance(config, dict) else []
    numbers = [str(key) for key in status]
    if len(names) == len(numbers) and all(word.isdigit() for word in (*names, *numbers)):
        paired = dict(zip(sorted(numbers, key=int), sorted(names, key=int), strict=True))
        if all(paired.get(number) == name for number, name in seen.items()):
            return paired
    return seen


def _ended(call: Call, entry: dict[Any, Any], status: dict[str, dict[str, int]]) -> Call:
    """Call what gloo retired completed, unless its group's last completed call came before it."""
    if call.state == "completed" or not entry.get("retired") or not str(entry.get("profiling_name")).startswith("gloo"):
        return call
    last = status.get(call.group, {}).get("last_completed_collective")
    if call.peer_to_peer or last is None or call.sequence <= last:
        import msgspec

        return msgspec.structs.replace(call, state="completed")
    return call


def _progress(
    calls: tuple[Call, ...], status: dict[str, dict[str, int]], backend: str
) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Return the last number handed in, begun and finished of each group.

    Where a group has point-to-point calls its status mixes both counts, so that the calls themselves are counted; gloo's
    always does, and keeps no such calls.
    """
    mixed = {call.group for call in calls if call.peer_to_peer or backend == "gloo"}
    found: tuple[dict[str, int], dict[str, int], dict[str, int]] = ({}, {}, {})
    reached = {"scheduled": 1, "started": 2, "completed": 3}
    for call in calls:
        if not call.peer_to_peer and call.sequence >= 0:
            for numbers in found[: reached.get(call.state, 1)]:
                numbers[call.group] = max(call.sequence, numbers.get(call.group, -1))
    words = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
    for group, one in status.items():
        for numbers, word in zip(found, words, strict=True):
            if group not in mixed and one.get(word, -1) >= 0:
                numbers[group] = max(one[word], numbers.get(group, -1))
    return found
