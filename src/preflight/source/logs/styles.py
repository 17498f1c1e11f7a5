"""Tells from the first lines of a file what stands before each of them, and whether it is text at all."""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Sequence

from preflight.source.logs.label_forms import LEARNT, pattern
from preflight.source.logs.learnt import BEHIND, MOST_LINES, learn, may_be_learnt, of_two, of_writers
from preflight.source.logs.pages import decoded
from preflight.source.logs.placed_labels import rank_of_one, ranks_behind, ranks_of_places, ranks_spoken
from preflight.source.logs.prefixes import NUMBERED, PLACE, PLACED, POD, TAG, LineStyle, head_of, plain
from preflight.vocabulary.log import Who

_SRUN = re.compile(r"\s*(?!\d{1,2}:\d\d:\d\d(?!:))(\d{1,7}): ?")
_HOST = re.compile(r"((?=[\w.-]*\d)[A-Za-z][\w.-]*|\d{1,3}(?:\.\d{1,3}){3}): ?(?!\d+:\d+ \[\d+\] )")
"""What NCCL puts before its lines begins with a host as well, and a process follows it."""
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
"""An address at the beginning of most lines is a label, whatever follows it."""
_OWN = re.compile(
    rb"[\[(](?:[A-Za-z_]{1,20}[ :_]{0,2}\d{1,7}(?:[/|]\d+)?[\])]|(?:prte[\w.-]{0,100}@)?\d+,\d+\](?:\[[\w.:-]{1,120}\])?<std|\d+\](?:<std|:)|[Rr]ank|[A-Za-z_]{1,20}\d{1,7}\])"
)
_RANKED = re.compile(
    rb"(?i:[\[(]|^|\n)(?i:local[ _]?)?(?i:rank)[ :_=-]{0,2}\d|\[default\d+\]:|\[\d+,\d+\]<std|@\d+,\d+\]<std"
)
_OWN_HOLD = (b"0]", b"0)", b"[rank", b"[Rank", b"(rank", b"(Rank", b"\nrank", b"\nRank")
"""One of these is in what these expressions find, when every digit is made a nought."""
_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")
_BARE = re.compile(rb"\n[Rr]ank")
"""What a line that says who wrote it holds near its beginning."""
_WORKER = re.compile(rb"\[(?:[Ww]orker|WORKER|[Tt]rainer|TRAINER)[ :_=#-](\d{1,4})(?:/\d{1,4})?\]")
_LOOKED_AT = 3 << 12
_OF_TORCH = re.compile(r"\[rank(\d{1,7})\]:")
_OF_SEVERAL = re.compile(
    r"(?<![\w-])(?i:(?:global |local |world )?rank)[ _:=]{0,2}\[?\d|(?i:world[ _-]?size|process[ _]?group|torchrun|all_?reduce)|(?<![A-Za-z])NCCL(?![a-z])"
    r"|\bgloo\b|torch\.distributed|torch/distributed|\bFSDP|\bDDP\b|DistributedDataParallel|[Dd]eep[Ss]peed"
)
"""What is said where a program runs as several ranks."""
_OF_SEVERAL_HOLD = (b"rank", b"Rank", b"RANK", b"orld", b"ORLD", b"rocess", b"PROCESS", b"torch", b"educe", b"NCCL", b"gloo", b"FSDP", b"DDP",
                    b"DataParallel", b"peed")  # fmt: skip
"""One of these is in what that expression finds."""
_SAYS_RANK = re.compile(r"(?<![\w-])(?:global )?[Rr]ank[ _:=]{0,2}(\d{1,7})(?![\d.])")
_TRIED = 8
_FIRST = 24
_FARTHEST = 80
_MOST_TRIES = 50
_MOST_LINES = 160
_SHARE = 0.8
_SOME = 0.3
_FEWEST = 4
_MOST_CONTAINERS = 3
"""The pods of a job have the same ones; where more words stand behind names that are like those of pods, they are words."""
_INNER = bytes(range(0x80, 0xC0))
"""What a letter of several bytes does not begin with."""
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})


def style_of(sample: bytes, *, of_one: bool = False) -> LineStyle:
    """Return what kind of label the lines of a sample bear at their beginning; ``of_one``: by its name the file is that of one rank."""
    text = plain(decoded(sample[:_LOOKED_AT]))
    # A bar is drawn again and again in one line, which bears one label.
    whole = text.split("\n") if "\n" in text else text.splitlines()
    lines = [line for line in whole[:_MOST_LINES] if line.strip()]
    if len(lines) < _FEWEST:
        return ""
    labels = [int(match[1]) for line in lines if (match := _SRUN.match(line))]
    if len(labels) >= _SHARE * len(lines) and not _counts_up(labels):
        return "srun"
    # The launcher's own lines between them bear no label.
    if (
        len(labels) >= _SOME * len(lines)
        and len(labels) >= 2 * len(set(labels))
        and set(labels) == set(range(max(labels) + 1))
    ):
        return "srun" if max(labels) and not _counts_up(labels) else ""
    hosts = _nearly_all(lines, _HOST)
    each = 2 if hosts and all(_ADDRESS.fullmatch(host) for host in hosts) else 3
    if hosts and len(set(hosts)) <= max(len(hosts) // each, 1):
        return "hosts"
    if _bear(lines, TAG):
        return "tags"
    if _bear(lines, PLACE) and of_writers([int(match[1]) for line in lines if (match := PLACE.match(line))]):
        return "places"
    if _bear(lines, POD) and len({match[2] for line in lines if (match := POD.match(line))}) <= _MOST_CONTAINERS:
        return "pods"
    if _numbered(lines):
        return "numbered"
    if _workers_are_ranks(sample):
        return "workers"
    if placed := ranks_behind(lines) or ranks_of_places(lines) or ranks_spoken(lines):
        return placed
    return "" if of_one else _learnt(sample, lines)


def _learnt(sample: bytes, lines: list[str]) -> LineStyle:
    """Return what the lines themselves tell of the label that they bear, where they are those of several ranks and bear no known one."""
    if not any(word in sample for word in _OF_SEVERAL_HOLD):
        return ""
    heads = [head_of(line).who for line in lines[:_FIRST]]
    known = sum(Who(who.rank, who.node, who.local_rank) != Who() for who in heads)  # a process alone is no rank
    if _SOME * min(len(lines), _FIRST) <= known:
        return "labelled" if not speaks_of_itself(sample, "") and _ranks_speak(lines[:_FIRST]) else ""
    if own := rank_of_one(lines):
        return own
    if not may_be_learnt(lines) or not any(_OF_SEVERAL.search(line) for line in lines):
        return ""
    more = [line for line in plain(decoded(sample)).split("\n")[:MOST_LINES] if line.strip()]
    style = learn(more)
    return style if style and _says_who_is_several(style, more) else ""


def _says_who_is_several(style: LineStyle, lines: Sequence[str]) -> bool:
    """Return whether what tells of several ranks stands behind the label: two writers say it, or more lines do than without a label.

    One program numbers its queues, cameras and cards as well, and tells of its ranks in lines that bear no such number.
    """
    label = pattern(style)
    writers: set[tuple[str | None, ...]] = set()
    labelled = without = 0
    for line in lines:
        if BEHIND.match(line) or _OF_SEVERAL.search(line) is None:
            continue
        match = label.match(line)
        if match is None:
            without += 1
            continue
        labelled += 1
        writers.add(match.groups())
    return len(writers) > 1 or (labelled > 0 and labelled >= without)


def _numbered(lines: list[str]) -> bool:
    """Whether nearly all lines begin with a word for a process and its number, of which none is missing, and none says otherwise.

    Environments, tasks and cards of one program are numbered as well: some line has to tell of several ranks, and the numbers must
    not come as those of a loop do, unless writers say that they have the rank of that number. A rank that torch itself names must be
    the same.
    """
    some = lines[:_TRIED]
    if 2 * sum(NUMBERED.search(line, 0, _FARTHEST) is not None for line in some) < len(some):
        return False  # most files bear none, and are many
    if not any(_OF_SEVERAL.search(line) for line in lines):
        return False
    labels: list[int] = []
    told: set[tuple[int, int]] = set()
    for line in lines:
        head = head_of(line)
        own = _OF_TORCH.search(line)
        start = head.end if own is None else head_of(line[: own.start()]).end
        label = NUMBERED.match(line, start)
        if label is None:
            continue
        if (head.who != Who() and own is None) or (own is not None and int(own[1]) != int(label[1])):
            return False
        labels.append(int(label[1]))
        told.update((int(label[1]), int(rank[1])) for rank in [_SAYS_RANK.search(line, label.end())] if rank)
    if len(labels) < _SHARE * len(lines):
        return False
    often = min((labels.count(one) for one in set(labels)), default=0)
    same = len(told) > 1 and all(one == other for one, other in told) and set(labels) == set(range(max(labels) + 1))
    return often > 1 and (same or of_writers(labels) or of_two(labels))


def _bear(lines: list[str], label: re.Pattern[str]) -> bool:
    """Whether nearly all lines begin with a label, of several writers each of which says more than one line."""
    found = _nearly_all(lines, label)
    return 1 < len(set(found)) <= len(found) // 2


def _nearly_all(lines: list[str], label: re.Pattern[str]) -> list[str]:
    """Return the labels of lines of which nearly all begin with one; none where too many do not, which is seen in the first lines."""
    found: list[str] = []
    without = 0
    for line in lines:
        match = label.match(line)
        if match is not None:
            found.append(match[1])
            continue
        without += 1
        if len(lines) - without < _SHARE * len(lines):
            return []
    return found


def _workers_are_ranks(sample: bytes) -> bool:
    """Whether numbered workers are the ranks: all from nought are there, and no line names a rank by another word."""
    if b"rker" not in sample and b"rainer" not in sample and b"RKER" not in sample and b"RAINER" not in sample:
        return False
    numbers = {int(match[1]) for match in _WORKER.finditer(sample)}
    if len(numbers) < 2 or max(numbers) != len(numbers) - 1:
        return False
    return _RANKED.search(sample) is None


def _ranks_speak(lines: Sequence[str]) -> bool:
    """Return whether several ranks say in labels of a known form who they are."""
    return len({who.rank for line in lines if (who := head_of(line).who).rank is not None}) > 1


def layout_of(style: LineStyle) -> str:
    """Return the layout of a file with this style; what was learnt of one is its own, and its lines tell who speaks."""
    return "lines" if style.startswith((LEARNT, PLACED)) or style in ("behind", "spoken") else style


def speaks_of_itself(sample: bytes, style: LineStyle) -> bool:
    """Whether lines of a sample say who printed them."""
    if style:
        return True
    sample = b"\n" + sample[:_LOOKED_AT]
    noughts = sample.translate(_NOUGHTS)
    if not any(word in noughts for word in _OWN_HOLD):
        return False
    found = itertools.chain(
        _OWN.finditer(sample), _BARE.finditer(sample) if b"\nRank" in sample or b"\nrank" in sample else ()
    )
    for number, match in enumerate(found):
        begin = sample.rfind(b"\n", 0, match.start() + 1) + 1
        end = sample.find(b"\n", begin)
        text = plain(decoded(sample[begin : end if end >= 0 else len(sample)]))
        who = head_of(text).who
        if who.rank is not None or who.local_rank is not None:
            return True
        if number > _MOST_TRIES:
            break
    return False


def _counts_up(labels: list[int]) -> bool:
    """Whether these are line numbers, which a listing bears."""
    steps = {after - before for before, after in itertools.pairwise(labels)}
    return len(labels) > 2 and steps == {1}


def is_text(sample: bytes) -> bool:
    """Whether bytes are text, if only for the most part: a hole of zeros in a log does not make it binary."""
    filled = sample.replace(b"\0" * 16, b"")
    if not filled:
        return not sample
    strange = len(filled) - len(filled.translate(None, _CONTROL))
    if strange > len(filled) * 0.05:
        return False
    try:
        # A sample begins and ends anywhere, also within a letter of several bytes.
        codecs.getincrementaldecoder("utf-8")().decode(filled.lstrip(_INNER))
    except UnicodeDecodeError:
        high = len(filled) - len(filled.translate(None, bytes(range(128, 256))))
        return high < len(filled) * 0.3
    return True
