"""Takes off a line what stands before its text: who printed it, when, how loud, from where.

The identity of a line is what launchers and loggers put before it; a rank that a sentence talks about is content.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from preflight.source.logs.label_forms import LEARNT, pattern
from preflight.source.logs.times import Stamp, stamp_at
from preflight.vocabulary.log import Who

LineStyle = Literal["", "srun", "hosts", "workers", "numbered", "tags", "pods", "places", "labelled"] | str
"""What ``3: `` or ``name: `` at the beginning of a line is in this file: nothing in particular, srun's label, a host.

``workers``: ``[worker 3]`` is a rank, as all of them are there and none is named otherwise.
``numbered``: ``Process 3:``, ``worker[3]`` and the like before nearly every line are ranks, as all of them are there.
``tags``: the rank and a tab, as GNU parallel puts what it started a process with before its lines.
``pods``: the names of a pod and of its container, as stern prints them.
``behind``: the rank stands at the end of nearly every line.
``spoken``: nearly every line says its rank before all else, with no mark behind it.
``placed:T``: the lines name a replica and one of its T places, of which all are there.
``labelled``: the lines of several ranks begin with labels of a known form that others seldom use.
``learnt:...``: what was learnt from the lines themselves (``learnt.py``).
"""

FARTHEST = 400
"""A prefix that ends later than this is no prefix."""
_MOST = 16

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|[\x00\x08]")
_BETWEEN = re.compile(r"[\s\-|:,>*•~=]+")

_TOKENS = re.compile(
    "|".join(
        (
            # who: a rank of the whole job
            r"\[(?i:rank)[ :_=-]{0,2}(?P<rank>\d{1,7})(?:/\d+)?\]:?",
            r"\((?i:rank)[ :_=]{0,2}(?P<rank_round>\d{1,7})(?:/\d+)?\):?",
            r"(?i:rank)[ _#]?(?P<rank_bare>\d{1,7})(?:/\d+)?\s?(?:[:|\]>](?!\d)|\s-\s)",
            r"[\[(](?i:proc(?:ess)?|rank)[ :_=#]{0,2}(?P<rank_of>\d{1,7})(?: of |/)\d{1,7}[\])]:?",
            # Open MPI names the job by its number, from its fifth series on also by the session that started it
            r"\[(?:prte[\w.-]{0,100}@)?\d+,(?P<rank_mpi>\d{1,7})\]"
            r"(?:\[(?:unknown:unknown|(?P<node_mpi>[\w.-]{1,100}):(?P<pid_mpi>\d{1,10}))\])?<std(?:out|err|diag)>:?",
            r"\[(?P<rank_horovod>\d{1,7})\]<std(?:out|err)>:?",
            # what torch_xla prints above the traceback of a process: the ordinal of its device is its rank
            r"Exception in device=TPU:(?P<rank_xla>\d{1,7}): (?=[A-Za-z_])",
            # who: a worker of an engine that counts its ranks of tensor parallelism, or that numbers its workers
            r"\((?:[A-Za-z_]\w{0,40}?[ _])?(?:[DP]P\d{1,7}[ _]){0,4}(?:TP|rank=|[Ww]orker/)(?P<rank_engine>\d{1,7})(?:[ _][A-Z]{2}\d{1,7}){0,4}"
            r" pid=(?P<pid_engine>\d+)\)",
            r"\[?(?:[DP]P\d{1,7} ){0,4}TP(?P<rank_tensor>\d{1,7})(?: [A-Z]{2}\d{1,7}){0,4}\]",
            r"\[(?i:worker|trainer)[ :_=#-](?P<worker>\d{1,4})(?:/\d{1,4})?\]",
            # who: a rank of its node
            r"\[(?i:local[ _]?rank)[ :_=]{0,2}(?P<local>\d{1,4})\]:?",
            r"\[(?P<role>[A-Za-z_][A-Za-z_.-]*)(?P<local_role>\d{1,4})(?:\|(?P<rank_role>\d{1,7}))?\]:",
            r"\[(?P<local_bare>\d{1,4})\]:(?=\D|$)",
            # who: a process of a process group of c10d; its rank is the job's where the group is the default one
            r"\[PG (?:ID )?(?P<group>[\w-]+)(?: PG GUID (?P<guid>[\w-]+)(?: ?\((?P<name>[^)]*)\))?)?(?: \((?P<name_old>[^)]*)\))?"
            r" Rank (?P<rank_group>\d{1,7})\]:?",
            # who: a process on a machine
            r"\((?P<actor>[A-Za-z_][\w.:<>-]*)[^()]{0,60}? ?pid=(?P<pid_ray>\d+)(?:, ip=(?P<node_ray>[\w.:-]+))?\)"
            # what an actor calls itself first in its lines, and not what a controller says of one
            r"(?: \[?(?i:rank|worker)[ :_=#-]{1,2}(?P<rank_actor>\d{1,7})\b(?! (?:has|died|failed|is dead|exit)))?",
            r"\[pod/(?P<pod>[\w.-]+)/[\w.-]+\]",
            r"\[(?:node|host)[ :=](?!\d+\])(?P<node_named>[A-Za-z0-9][\w.-]{0,100})\]:?",
            r"(?P<node_nccl>[A-Za-z0-9][\w.-]*):(?P<pid_nccl>\d+):\d+ \[(?P<device>\d+)\](?= )",
            r"(?P<node_docker>[A-Za-z][\w.-]*[-_]\d+) +\| ",
            r"\[(?P<node_slot>[A-Za-z][\w.-]{0,60}):(?P<slot>\d)\]:?",
            r"(?P<node_tab>[A-Za-z][\w.-]{0,60}):(?P<slot_tab>\d{1,4})(?=\t[\w.]+:\d+\t)",
            r"\[(?P<node_pair>[A-Za-z][\w.-]{0,60}\d[\w.-]{0,60}):(?P<pid_pair>\d{2,8})\]",
            # the number of a line in a viewer
            r"\[\d{1,9}\](?= \[(?i:rank)[ :_=]?\d)",
            # how loud, from where
            r"[\[(]?(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SEVERE)\b[\])]?(?:\|[\w./-]+:\d+[\])])?",
            r"[\[(]?[\w./<>-]+\.(?:py|cpp|cc|cu|cuh|c|h|hpp|go|rs):\d+(?::\w+)?[\])]?(?::<?\w+>?)?",
            # the module, the function and the line, as loguru tells them
            r"[A-Za-z_][\w.]{0,80}:[\w<>]{1,60}:\d{1,6}(?= [|-] )",
            r"\[(?P<glog>[IWEFCV])(?=\d{3,4} \d\d:|[ :])",
            r"[\[(]?pid[=: ](?P<pid>\d+)[\])]?",
            r"\[PID[=: ](?P<pid_capital>\d{1,10})\]",
            # the module and the line of it that speaks, before the process or the rank
            r"\[[A-Za-z_][\w.]{0,80}:\d{2,6}\](?= \[(?:PID|(?i:rank))[ :_=]{0,2}\d)",
            r"\[(?:NeMo|titan|rank_zero|root|trainer|Trainer|PyTorch|__main__)\b\]?(?: (?P<nemo>[IWED])\b)?",
            r"std(?:out|err) [FP](?= )",
            # the priority that the journal, and the kernel, take from the beginning of a line
            r"^<[0-7]>(?=[IWEF]\d{4} |[A-Z][a-z]{2} [ \d]\d )",
            # the priority and the version of a line of syslog in its newer form
            r"<\d{1,3}>1(?= \d{4}-\d\d-)",
            r"(?:root|__main__)\b",
            r"what\(\):",
            r"[A-Za-z_][\w.]{0,60}(?= - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b)",
        )
    )
)
_NODE_NAME = re.compile(r"(?:node|host|nid|gpu|ip|dgx|compute|cn|worker|pod)[-_]?$", re.IGNORECASE)
_SRUN = re.compile(r"\s*(?!\d{1,2}:\d\d:\d\d(?!:))(\d{1,7}): ?")
"""A label of srun, and not the hour of a time of the day that stands first in the line."""
_HOST = re.compile(
    r"(?!(?:[\w.]*(?:Error|Exception|Interrupt|Warning)|DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL):)"
    r"([A-Za-z0-9](?:[\w.-]*[\w])?): ?(?!\d+:\d+ \[\d+\] )"
)
"""A host, and neither a level nor the name of an exception, which stand before a colon as well."""
TAG = re.compile(r"-{0,2}(?i:rank)[ _=-]?(\d{1,7})\t")
PLACE = re.compile(r"\[(\d{1,4})\] ")
"""What Intel's MPI and hand-made launchers put before each line: a rank, or a place where each node has a file of its own."""
NUMBERED = re.compile(
    r"(?:[<(\[][rR](?=\d{1,4}[\])>])"
    r"|[<(\[]?(?:[A-Za-z]{1,20}[ _-])?(?i:worker|trainer|process|proc|gpu|npu|device|task|replica|learner)[ :_=#(\[-]{0,2})"
    r"(\d{1,4})(?:/\d{1,4})?(?:[\])>]{1,2}:? |[\])>]? ?[:|>\u203a\u00bb](?: |$))"
)
"""What hand-made launchers put before each line: a word for a process, and its number."""
AT_END = re.compile(
    r"[ \t](?:[\[(](?i:rank)[ :_=#]{0,2}(\d{1,7})(?:/\d{1,7})?[\])]|#?(?i:rank|r)[=#](\d{1,7})(?:/\d{1,7})?)\s*$"
)
"""A rank that stands behind what is said, where nearly all lines of a file bear one there (style ``behind``)."""
COORDINATES = re.compile(r"(?<![\w-])DP(\d{1,5})[ _]TP(\d{1,5})(?![\w-])")
"""A replica and a place in its group of tensor parallelism; the style ``placed:4`` says that such a group has four places."""
PLACED = "placed:"
_FARTHEST_PLACE = 80
SPOKEN = re.compile(r"[Rr]ank[ =#]?(\d{1,7})(?:/\d{1,7})?(?=[ ,;]+[A-Za-z\[(])[ ,;]+")
"""What stands first in what nearly all lines of a file say, with no mark behind it (style ``spoken``)."""
_OF_TORCH = re.compile(r"\[rank(\d{1,7})\]:(?= |$)")
_FARTHEST_OF_TORCH = 120
"""The label that torch itself puts before each line of what ends a rank; what stands before it is a launcher's."""
POD = re.compile(
    r"((?:[a-z0-9]+-)+(?:worker|master|launcher|node|head|ps|trainer|server|replica)s?(?:-\d{1,5}){1,2}) ([a-z0-9][a-z0-9-]*) "
)
_SYSLOG_HOST = re.compile(r" ([\w.-]+) ([\w./() -]{1,40}?)(?:\[(\d+)\])?: ")
_SYSLOG_NEW = re.compile(
    r" (?:-|([\w.:-]{1,255})) \S{1,48} (?:-|(\d{1,10})|\S{1,128}) \S{1,32} (?:-|(?:\[[^\]]*\])+)(?= |$)"
)
"""The host, the process and the rest of the head of a line of syslog in its newer form (RFC 5424), behind its time."""
_GLOG_PID = re.compile(r"\s+(\d{1,18})\s+(?=[\w./<>-]+:\d+\])")
_TIME_BEGINS = frozenset("0123456789[IWEFDVCJMASONT")
_LEVELS = {"W": "WARNING", "E": "ERROR", "F": "FATAL", "C": "CRITICAL", "I": "INFO", "V": "DEBUG", "D": "DEBUG"}
_GLOBAL = (
    "rank",
    "rank_round",
    "rank_bare",
    "rank_of",
    "rank_mpi",
    "rank_horovod",
    "rank_xla",
    "rank_role",
    "rank_tensor",
)
_LATER_STAGE = re.compile(r"PP0*[1-9]")
"""In a later stage of a pipeline the ranks of tensor parallelism begin at nought again, and are not those of the job."""


class Head(NamedTuple):
    """What stands before the text of a line.

    Attributes:
        who: Who printed it, as far as the line tells.
        stamp: When: the fullest of the times before its text.
        inner: Another time, of a logger within the first one's line.
        level: ``WARNING``, ``ERROR`` ... or empty.
        end: The character at which the text begins.
    """

    who: Who
    stamp: Stamp | None
    inner: Stamp | None
    level: str
    end: int


def plain(text: str) -> str:
    """Return a line without colours and other terminal codes."""
    return _ANSI.sub("", text) if "\x1b" in text or "\x00" in text or "\x08" in text else text


class _Taken:
    """What the tokens of a line said so far; the first one to say something is right."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.group_rank: int | None = None
        self.local: int | None = None
        self.node: str | None = None
        self.pid: int | None = None
        self.level = ""
        self.stamps: list[Stamp] = []

    def head(self, end: int) -> Head:
        rank = self.rank if self.rank is not None else self.group_rank
        who = Who(rank, self.node, self.local, None, self.pid)
        if not self.stamps:
            return Head(who, None, None, self.level, end)
        best = min(self.stamps, key=lambda stamp: (len(stamp.missing) > 0, not stamp.zoned))
        inner = next((stamp for stamp in self.stamps if stamp is not best), None)
        return Head(who, best, inner, self.level, end)


def head_of(text: str, style: LineStyle = "") -> Head:
    """Take the prefixes off a line from which ``plain`` took the colours."""
    taken = _Taken()
    place = _tokens(text, _labelled(text, style, taken), taken, style)
    if style.startswith(LEARNT) and (learnt := _learnt(text, style, taken)) > place:
        place = _tokens(text, learnt, taken, style)
    if style == "spoken" and taken.rank is None:
        between = _BETWEEN.match(text, place) if place else None
        said = SPOKEN.match(text, between.end() if between else place)
        if said is not None:
            taken.rank, place = int(said[1]), said.end()
    if taken.rank is None and "[rank" in text:
        label = _OF_TORCH.search(text, place, _FARTHEST_OF_TORCH)
        if label is not None:
            taken.rank, place = int(label[1]), label.end()
    between = _BETWEEN.match(text, place) if place else None
    return taken.head(min(between.end(), len(text)) if between else place)


def _tokens(text: str, place: int, taken: _Taken, style: LineStyle) -> int:
    """Take off the prefixes that stand at a place, one after the other; return where they end."""
    stop = min(len(text), FARTHEST)
    for _ in range(_MOST):
        between = _BETWEEN.match(text, place)
        start = between.end() if between else place
        if start >= stop:
            break
        end = _time(text, start, taken) or _token(text, start, taken, style)
        if not end:
            break
        place = end
    return place


def _learnt(text: str, style: LineStyle, taken: _Taken) -> int:
    """Take off a label whose form was learnt from the file; return where it ends, 0 where the line bears none."""
    match = pattern(style).match(text)
    if match is None:
        return 0
    found = match.groupdict()
    if found.get("rank") is not None and taken.rank is None:
        taken.rank = int(found["rank"])
    if found.get("local") is not None and taken.local is None:
        taken.local = int(found["local"])
    if found.get("pid") is not None and taken.pid is None:
        taken.pid = int(found["pid"])
    taken.node = found.get("node") or taken.node
    return match.end()


def _labelled(text: str, style: LineStyle, taken: _Taken) -> int:
    """Take off what the file is known to have before every line: a label of srun, a tag, the name of a host or a pod."""
    if style == "srun":
        match = _SRUN.match(text)
        if match:
            taken.rank = int(match[1])
            return match.end()
    elif style == "hosts":
        match = _HOST.match(text)
        if match:
            taken.node = match[1]
            return match.end()
    elif style == "tags":
        match = TAG.match(text)
        if match:
            taken.rank = int(match[1])
            return match.end()
    elif style == "places":
        match = PLACE.match(text)
        if match:
            taken.local = int(match[1])
            return match.end()
    elif style == "behind":
        match = AT_END.search(text)
        if match:
            taken.rank = int(match[1] or match[2])
    elif style.startswith(PLACED):
        match = COORDINATES.search(text, 0, _FARTHEST_PLACE)
        if match:
            taken.rank = int(match[1]) * int(style.removeprefix(PLACED)) + int(match[2])
    elif style == "pods":
        match = POD.match(text)
        if match:
            taken.node = match[1]
            return match.end()
    return 0


def _time(text: str, start: int, taken: _Taken) -> int:
    place = start
    stamp = stamp_at(text, place) if text[place] in _TIME_BEGINS else None
    if stamp is None and text[place] in '[("' and text[place + 1 : place + 2] in _TIME_BEGINS:
        place += 1
        stamp = stamp_at(text, place)
    if stamp is None:
        return 0
    end = stamp.end
    taken.stamps.append(stamp)
    if stamp.form == "glog":
        taken.level = taken.level or _LEVELS.get(text[place], "")
        pid = _GLOG_PID.match(text, end)
        if pid:
            if len(pid[1]) < 9 and taken.pid is None:  # a longer one is the thread
                taken.pid = int(pid[1])
            end = pid.end()
    elif text[start - 3 : start] == ">1 " and (head := _SYSLOG_NEW.match(text, end)):
        taken.node = taken.node or head[1]
        if head[2] and taken.pid is None:
            taken.pid = int(head[2])
        end = head.end()
    elif stamp.form in ("syslog", "iso") and text[end : end + 1] == " ":
        host = _SYSLOG_HOST.match(text, end)
        if host and (stamp.form == "syslog" or host[3] or host[2] == "kernel"):
            taken.node = taken.node or host[1]
            if host[3] and taken.pid is None:
                taken.pid = int(host[3])
            end = host.end()
    while end < len(text) and text[end] in '])",':
        end += 1
    return end


def _token(text: str, start: int, taken: _Taken, style: LineStyle) -> int:
    if style == "numbered" and taken.rank is None and (label := NUMBERED.match(text, start)):
        taken.rank = int(label[1])
        return label.end()
    match = _TOKENS.match(text, start, start + FARTHEST)
    if match is None:
        return 0
    kind = match.lastgroup
    if kind is None:
        return match.end()
    value = match[kind]
    if kind == "worker":
        if style == "workers" and taken.rank is None:
            taken.rank = int(value)
    elif kind in _GLOBAL:
        if taken.rank is None and not (kind == "rank_tensor" and _begins_again(match[0], int(value))):
            taken.rank = int(value)
        if kind == "rank_role" and taken.local is None:
            taken.local = int(match["local_role"])
    elif kind == "level":
        taken.level = taken.level or ("WARNING" if value == "WARN" else value)
    elif kind == "rank_group":
        if taken.group_rank is None and _of_default_group(match.groupdict()):
            taken.group_rank = int(value)
    elif kind in ("glog", "nemo"):
        taken.level = taken.level or _LEVELS.get(value, "")
        if kind == "glog" and text[match.end() : match.end() + 1].isdigit():
            # The bracket of ``[E131 12:00:00.1 file.cpp:1]`` is opened here, and its time comes next.
            return match.start() + 1
    elif kind in ("local", "local_role", "local_bare"):
        _local(match, kind, taken)
    else:
        for name in ("rank_engine", "rank_actor", "rank_mpi"):
            if match[name] is not None and taken.rank is None and not _LATER_STAGE.search(match[0]):
                taken.rank = int(match[name])
        _process(match, taken)
    return match.end()


def _begins_again(label: str, place: int) -> bool:
    """Return whether a place in a group of tensor parallelism is not counted over the whole job: a later group has lower ones."""
    group = COORDINATES.search(label)
    return _LATER_STAGE.search(label) is not None or (group is not None and place < int(group[1]))


def _process(match: re.Match[str], taken: _Taken) -> None:
    for name, value in match.groupdict().items():
        if value is None:
            continue
        if name.startswith("pid") and taken.pid is None:
            taken.pid = int(value)
        elif name.startswith("slot") and taken.local is None:
            taken.local = int(value)
        elif name.startswith(("node", "pod")):
            taken.node = taken.node or value


def _of_default_group(found: dict[str, str | None]) -> bool:
    name = found["name"] or found["name_old"] or ""
    return "default" in name or (not name and (found["guid"] or found["group"]) == "0")


def _local(match: re.Match[str], kind: str, taken: _Taken) -> None:
    role = match["role"]
    if kind == "local_role" and _NODE_NAME.match(role):
        taken.node = taken.node or f"{role}{match[kind]}"
    elif taken.local is None:
        taken.local = int(match[kind])
