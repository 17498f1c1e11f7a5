"""Learns from the lines of a file in which of their fields the one who wrote them stands, where no known label tells it.

A logger's format is anybody's own, but what it puts before each line has the same shape in all of them: but for the digits, the
level and the name of the host.
So the numbers that stand behind the same shape are looked at together.
They are those of writers where all from nought are there, come in no order, and several of them say the same things; a counter
goes up, a loop comes in order, and what only one of them ever says is no sign of several processes.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from preflight.source.logs.label_forms import AS, NAME, PART, pattern, shape_of, style_for

MOST_LINES = 400
_LOOKED_AT_FIRST = 24
_FARTHEST = 110
"""A number that stands later than this in its line is a part of what it says."""
_BEGINNING = 2 * _FARTHEST
"""Characters that say what stands there: what follows a number decides, too, whether it is one."""
_NOUGHTS = {ord(digit): "0" for digit in "123456789"}
_MOST_NUMBERS = 10
_FEWEST = 8
_SHARE = 0.3
_MOST_WRITERS = 1024
_LEAST_PROCESS = 100
_TEMPLATE = 40
_TAIL = 8
_MOST_BEGINNINGS = 3
_SELDOM = 0.2
"""Of the changes between writers so many at least are none that a counter makes."""
BEHIND = re.compile(
    r"\s+(?!\s|[A-Z]{4,8}\b)|[│╭╰❱]|\[rank\d+\]:|Traceback \(|[\w.]*(?:Error|Exception|Interrupt)\b|[{}=*#-]*$|\{\""
)
"""A line of a traceback, of a frame around one, or of a table, before which no logger stands."""
_NUMBER = re.compile(
    r"(?<!\d)(?<!\d[.,/-])\d{1,8}(?!\d)(?![.:,-]\d)(?!/\d+/)"
    r"|(?<=\d,)\d{1,5}(?=,[A-Za-z])"  # a field between commas, as tables have them
)
_WORD = re.compile(r"([A-Za-z]+)[^A-Za-z0-9]{0,3}$")
_NAME = re.compile(r"(?<![\w.-])[A-Za-z](?:[\w.-]*[\w])?")
_HOST_BEHIND = re.compile(r"([^\w]{1,3}(?:[A-Za-z]{1,12}[=: ])?)(?P<node>[A-Za-z][\w.-]*\w)")
_DIGITS = re.compile(r"\d+")
_SOURCE = re.compile(r"\.(?:py|cpp|cc|cu|h|c|rs|go)$")
_NO_WRITERS = frozenset(
    "epoch epochs step steps iter iters iteration batch microbatch minibatch micro layer layers block expert experts env envs episode"
    " sample shard fold bucket chunk seq sequence stage attempt try retry retries line head token part split stream thread phase round"
    " trial seed version v port level request req run pid tid errno code status size world of nodes gpus loss lr dataset file"
    " channel ring tree peer dim index row column col page frame question turn rollout actor group queue slot buffer pool link nic hca"
    " communicator comm tensor param parameter camera class source domain client player agent candidate chain adapter".split()
)
"""What programs count that is no process of theirs."""
_NODES = frozenset(("node", "host", "machine", "server"))


class _Seen(NamedTuple):
    """A number behind some shape.

    Attributes:
        line: The place of its line.
        value: The number.
        start: Where it begins in its line.
        rest: What stands behind it.
    """

    line: int
    value: int
    start: int
    rest: str


def learn(lines: Sequence[str]) -> str:
    """Return the style of a file by its first lines: ``LEARNT`` and an expression; empty where nothing tells writers apart.

    Args:
        lines: Lines without colours; the groups ``rank``, ``local`` and ``node`` of the expression are who wrote a line.
    """
    lines = [line for line in lines if not BEHIND.match(line)]
    return _of_numbers(lines) or _of_processes(lines) or _of_names(lines)


def may_be_learnt(lines: Sequence[str]) -> bool:
    """Return whether a few lines may tell writers apart; what most files of one writer hold does not, and is told so soon."""
    some = [line for line in lines[:_LOOKED_AT_FIRST] if not BEHIND.match(line)]
    return any(len(seen) >= _FEWEST and not _goes_up(seen) for seen in _numbers(some).values()) or bool(_names(some))


def of_writers(labels: Sequence[int]) -> bool:
    """Whether numbers before lines are those of writers: all from nought, now and then before several lines, in no order.

    Counters go up by one and begin again at nought, those within others too (epochs of folds): of three or more writers who
    speak when they like, at least every fifth change is another one. Of two nothing tells them from a counter.
    """
    return any(before == after for before, after in itertools.pairwise(labels)) and _in_no_order(labels)


def _in_no_order(labels: Sequence[int]) -> bool:
    changes = [(before, after) for before, after in itertools.pairwise(labels) if before != after]
    others = sum(after not in (0, before + 1) for before, after in changes)
    return set(labels) == set(range(max(labels) + 1)) and others >= _SELDOM * len(changes) > 0


def of_two(labels: Sequence[int]) -> bool:
    """Whether two writers speak in turn, each as long as it likes; a loop within another one gives each the same number of lines."""
    if set(labels) != {0, 1}:
        return False
    # The last turn is cut off, and the first one may be longer.
    turns = [len(list(turn)) for _, turn in itertools.groupby(labels)][1:-1]
    return len(set(turns)) > 1


def _numbers(lines: Sequence[str]) -> dict[str, list[_Seen]]:
    """Return the numbers near the beginnings of lines by the shape of what stands before them, and of what follows at once."""
    found: dict[str, list[_Seen]] = defaultdict(list)
    alike: dict[
        str, list[tuple[str, int, int]]
    ] = {}  # lines that differ in their digits alone have them at the same places
    for place, line in enumerate(lines):
        beginning = line[:_BEGINNING]
        form = beginning.translate(_NOUGHTS)
        places = alike.get(form)
        if places is None:
            places = alike[form] = list(_places(beginning))
        for shape, start, end in places:
            found[shape].append(_Seen(place, int(line[start:end]), start, line[end : end + _TEMPLATE]))
    return found


def _places(line: str) -> Iterator[tuple[str, int, int]]:
    """Give the numbers near the beginning of a line: the shapes before and behind each, and where it begins and ends."""
    before, count = "", 0
    for part in PART.finditer(line, 0, _FARTHEST):
        kind = part.lastgroup or ""
        start, end = part.span()
        if kind == "digits" and _NUMBER.match(line, start):
            yield f"{before}\0{shape_of(line[end : end + 1])}", start, end
            count += 1
            if count == _MOST_NUMBERS:
                return
        before += AS[kind][0] if kind in AS else part[0]


def _may_be_writers(seen: Sequence[_Seen]) -> bool:
    values = {one.value for one in seen}
    first, size = min(values, default=0), len(values)
    # The file of a node holds the ranks of that node: as many as the others have before it.
    return len(seen) >= _FEWEST and 1 < size <= len(seen) // 2 and max(values) - first < size and not first % size


def _goes_up(seen: Sequence[_Seen]) -> bool:
    """Whether a number never becomes smaller, as counters do: most files of one writer have no others."""
    return all(one.value <= other.value for one, other in itertools.pairwise(seen))


def _are_writers(seen: Sequence[_Seen], lines: Sequence[str]) -> bool:
    """Whether the numbers behind one shape are those of writers."""
    first = min(one.value for one in seen)
    labels = [one.value - first for one in seen]
    if len(seen) < max(_FEWEST, _SHARE * len(lines)) or max(labels) >= min(_MOST_WRITERS, len(labels) // 2):
        return False
    word = _WORD.search(lines[seen[0].line][: seen[0].start])
    if word is not None and word[1].lower() in _NO_WRITERS:
        return False
    return (_in_no_order(labels) or of_two(labels)) and _say_the_same((one.value, shape_of(one.rest)) for one in seen)


def _say_the_same(said: Iterator[tuple[object, str]]) -> bool:
    """Whether two things at least are said by several of them, and so it is with half of all that was said more than once."""
    who: dict[str, set[object]] = defaultdict(set)
    often: dict[str, int] = defaultdict(int)
    for writer, rest in said:
        who[rest].add(writer)
        often[rest] += 1
    again = [rest for rest, count in often.items() if count > 1]
    shared = sum(len(who[rest]) > 1 for rest in again)
    return shared > 1 and 2 * shared >= len(again)


def _of_numbers(lines: Sequence[str]) -> str:
    """Return the style where a number tells the writers apart."""
    good = sorted(
        (seen for seen in _numbers(lines).values() if _may_be_writers(seen) and _are_writers(seen, lines)),
        key=lambda seen: (min(one.value for one in seen) > 0, seen[0].start, -len(seen)),
    )
    if not good:
        return ""
    first = good[0]
    behind = next((seen for seen in good[1:] if _divides(first, seen)), None)
    if behind is not None:  # what stands before tells the machine, and the number behind it a place on it
        name = _token_at(lines[behind[0].line], first[0].start)
        kind = "local" if _overlap(behind, lines, name) else "rank"
        return style_for(lines[behind[0].line], behind[0].start, kind, name)
    word = _WORD.search(lines[first[0].line][: first[0].start])
    if word is not None and word[1].lower() in _NODES:
        return style_for(lines[first[0].line], first[0].start, "", _token_at(lines[first[0].line], first[0].start))
    host = _host_before(first, lines)
    if host is None and (style := _with_host_behind(first, lines)):
        return style
    if host is None:
        return style_for(lines[first[0].line], first[0].start, "rank", None, _other_beginnings(first, lines))
    return style_for(lines[first[0].line], first[0].start, "local" if _overlap(first, lines, host) else "rank", host)


def _of_processes(lines: Sequence[str]) -> str:
    """Return the style where the number of a process tells the writers apart, whose ranks may be told elsewhere."""
    for seen in _numbers(lines).values():
        values = {one.value for one in seen}
        several = 1 < len(values) <= len(seen) // 3 and min(values) >= _LEAST_PROCESS
        if not several or len(seen) < max(_FEWEST, _SHARE * len(lines)):
            continue
        turns = sum(one.value != other.value for one, other in itertools.pairwise(seen))
        if turns >= 2 * len(values) and _say_the_same((one.value, shape_of(one.rest)) for one in seen):
            return style_for(lines[seen[0].line], seen[0].start, "pid", _host_before(seen, lines))
    return ""


def _divides(first: Sequence[_Seen], other: Sequence[_Seen]) -> bool:
    """Whether writers with one number bear several of the other."""
    by_line = {one.line: one.value for one in first}
    inner: dict[int, set[int]] = defaultdict(set)
    for one in other:
        if one.line in by_line:
            inner[by_line[one.line]].add(one.value)
    return other[0].start > first[0].start and any(len(values) > 1 for values in inner.values())


def _token_at(line: str, place: int) -> tuple[int, int]:
    """Return where the name begins and ends that holds a character; the digits alone where it is a number."""
    name = next((one for one in _NAME.finditer(line) if one.start() <= place < one.end()), None)
    if name is not None:
        return name.span()
    number = _DIGITS.match(line, place)
    return number.span() if number is not None else (place, place)


def _host_before(seen: Sequence[_Seen], lines: Sequence[str]) -> tuple[int, int] | None:
    """Return where in the first of these lines the name of a machine stands before the number, where several ones do there."""
    line, start = lines[seen[0].line], seen[0].start
    names = [one.span() for one in _NAME.finditer(line, 0, start) if one.end() < start]
    for place, (begin, end) in enumerate(names):
        found: list[str] = []
        for one in seen:
            other = [name[0] for name in _NAME.finditer(lines[one.line], 0, one.start) if name.end() < one.start]
            if len(other) == len(names):
                found.append(other[place])
        if _may_be_hosts(found):
            return begin, end
    return None


def _with_host_behind(seen: Sequence[_Seen], lines: Sequence[str]) -> str:
    """Return the style where the name of a machine stands next behind the number, several ones have the same numbers."""
    found: dict[str, set[int]] = defaultdict(set)
    between: set[str] = set()
    for one in seen:
        end = one.start + len(str(one.value))
        match = _HOST_BEHIND.match(lines[one.line], end)
        if match is None:
            return ""
        found[match["node"]].add(one.value)
        between.add(match[1])
    names = [name for name, values in found.items() for _ in range(len(seen) // len(found))]
    if (
        len(between) != 1
        or not _may_be_hosts(names)
        or not any(a & b for a, b in itertools.combinations(found.values(), 2))
    ):
        return ""
    line = lines[seen[0].line]
    label = style_for(line, seen[0].start, "local", None).rpartition(r"(?P<local>\d{1,7})")
    return f"{label[0]}{label[1]}{re.escape(between.pop())}(?P<node>{NAME})"


def _may_be_hosts(found: Sequence[str]) -> bool:
    told = set(found)
    fit = all(_DIGITS.search(name) and not _SOURCE.search(name) for name in told)
    return 1 < len(told) <= len(found) // 3 and fit and len({shape_of(name) for name in told}) == 1


def _overlap(seen: Sequence[_Seen], lines: Sequence[str], host: tuple[int, int]) -> bool:
    """Whether machines have the same numbers: then they are places on them."""
    expression = pattern(style_for(lines[seen[0].line], seen[0].start, "local", host))
    values: dict[str, set[str]] = defaultdict(set)
    for one in seen:
        if (match := expression.match(lines[one.line])) is not None:
            values[match["node"]].add(match["local"])
    return any(one & other for one, other in itertools.combinations(values.values(), 2))


def _other_beginnings(seen: Sequence[_Seen], lines: Sequence[str]) -> list[str]:
    """Return the beginnings of lines in which the same words stand before the number, and other ones before these.

    A logger that tells a time only once leaves it blank where it is the same.
    """
    line, start = lines[seen[0].line], seen[0].start
    tail = shape_of(line[:start])[-_TAIL:]
    if not any(letter.isalpha() for letter in tail):
        return []
    told = {one.value for one in seen}
    own = shape_of(line[:start])
    found: dict[str, str] = {}
    for key, others in _numbers(lines).items():
        before = key.partition("\0")[0]
        if before != own and before.endswith(tail) and len(others) > 1 and {one.value for one in others} <= told:
            found.setdefault(before, lines[others[0].line][: others[0].start])
    return list(found.values())[:_MOST_BEGINNINGS]


def _names(lines: Sequence[str]) -> dict[str, list[tuple[int, str, int, int]]]:
    """Return the names with digits that stand first in lines, by the shape of what stands before them and of themselves."""
    found: dict[str, list[tuple[int, str, int, int]]] = defaultdict(list)
    for place, line in enumerate(lines):
        name = _NAME.search(line, 0, _FARTHEST)
        if name is not None and _DIGITS.search(name[0]) and not _SOURCE.search(name[0]):
            found[f"{shape_of(line[: name.start()])}\0{shape_of(name[0])}"].append(
                (place, name[0], name.start(), name.end())
            )
    return {
        key: seen for key, seen in found.items() if _may_be_hosts([one[1] for one in seen]) and len(seen) >= _FEWEST
    }


def _of_names(lines: Sequence[str]) -> str:
    """Return the style where a name with digits, of a machine or a container, tells the writers apart."""
    for seen in _names(lines).values():
        names = [name for _, name, _, _ in seen]
        turns = sum(before != after for before, after in itertools.pairwise(names))
        said = ((name, shape_of(lines[place][end : end + _TEMPLATE])) for place, name, _, end in seen)
        if 2 * len(seen) >= len(lines) and turns >= 2 * len(set(names)) and _say_the_same(said):
            place, _, begin, end = seen[0]
            return style_for(lines[place], None, "", (begin, end))
    return ""
