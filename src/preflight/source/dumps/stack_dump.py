"""Stacks of live or dying processes: py-spy (text and JSON), faulthandler, pystack, gdb; one process or many in a file.

All are turned to one form: a ``Stack`` for each thread, its innermost frame first. Where a file holds several processes, headings
tell whose the stacks are: ``Process 12: python train.py``, ``Rank 3: http://...``, ``==> rank_3.txt <==``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from preflight.source.dumps.part import Part
from preflight.vocabulary.log import Frame, LogFile, Stack, Who

KIND = "stacks"
TEXT = True

_PYSPY_THREAD = re.compile(r'^Thread (0x[0-9A-Fa-f]+|\d+)(?: \(([^)"]*)\))?(?:: "(.*)")?\s*$')
_PYSPY_FRAME = re.compile(r"^ {4}(\S.*?) \(([^()]*?)(?::(\d+))?\)\s*$")
_PROCESS = re.compile(r"^(?:Process|PID|process|pid:) (\d+)\b(?:: (.*))?")
_FAULT_THREAD = re.compile(
    r"^(Current thread|Thread) (0x[0-9A-Fa-f]+)(?: \[(.*?)\])?\s*(?:<[^>]*>)? ?\(most recent call first\):"
)
_FAULT_FRAME = re.compile(r'^  File "(.*?)", line (\d+|\?\?\?) in (.*)$')
_PYSTACK_THREAD = re.compile(r"^Traceback for thread (\d+)(?: \((.*?)\))? \[(.*?)\] \(most recent call last\):")
_PYSTACK_FRAME = re.compile(r'^ {4}\((Python|C|native)\) File "(.*?)", line (\d+), in (.*?)(?: \((.*)\))?$')
_GDB_THREAD = re.compile(r"^Thread (\d+) \((?:Thread (0x[0-9a-f]+) )?\(?(?:LWP (\d+))?\)?(?:.*?\"(.*?)\")?\)?")
_GDB_FRAME = re.compile(r"^#\d+\s+(?:0x[0-9a-f]+ in )?(.+?) \((.*?)\)(?: at (\S+?)(?::(\d+))?| from (\S+))?\s*$")
_RANK = re.compile(r"(?i)\brank[ _:=-]{0,2}(\d+)\b")
_FILE_RANK = re.compile(r"(?i)rank[_.-]?(\d+)")
# A heading that names a rank says nothing else but where it comes from; ``ranks 0-3 wait`` is content.
_HEADING = re.compile(
    r"(?i)^[\s=#>*\[<-]*(?:(?:stacks?|dump|file|host)\b\W*(?:of\W+)?)?[\w./-]*?rank[ _:=-]{0,2}(\d+)\b[\w\s:/.=\]>*#@<-]*$"
)
_LABELLED = re.compile(rb"[\[(][^\])]{1,40}[\])]:? {0,2}\w")
_OF_PROCESS = re.compile(rb"^(?:Process|PID) \d+: ")
_STARTS = (
    _OF_PROCESS,
    re.compile(rb"^Thread (?:0x[0-9A-Fa-f]+|\d+) \((?:idle|active)"),
    re.compile(rb"^(?:Current thread|Thread) 0x[0-9A-Fa-f]+[^\n]*\(most recent call first\)"),
    re.compile(rb"^Traceback for thread \d+ "),
    re.compile(rb"^Thread \d+ \((?:Thread 0x|LWP)"),
    re.compile(rb"^(?:Timeout \(\d+:\d\d:\d\d[^)]*\)!|Fatal Python error: |Dumping traceback)"),
)
_PREFACES = (b"Python v", b"GNU gdb", b"Rank", b"rank", b"Using host", b"Host")
_FIRST = (
    *_PREFACES,
    b"Process ",
    b"PID ",
    b"Thread ",
    b"Current thread",
    b"Traceback for",
    b"Timeout (",
    b"Fatal Python",
    b"Dumping",
)
# So many lines from the beginning may be headings before the first stack.
_PREFACE = 12


def looks_like(name: str, head: bytes) -> bool:
    """Tell a file of stacks by its first lines: a log in whose middle a stack stands is a log."""
    start = head.lstrip()
    if (
        (b"Thread " in head and b"\n#0 " in head)
        and re.search(rb"(?m)^Thread \d+ \((?:Thread 0x|LWP)", head)
        and re.search(rb"(?m)^#[01] +(?:0x|\S+ \()", head)
    ):
        return True  # gdb greets at length before it comes to the stacks
    if start[:1] == b"[" and b'"frames"' in head and (b'"thread_name"' in head or b'"os_thread_id"' in head):
        return True
    if start.startswith((b"Using executable found in the core file", b"Core file information")):
        return b"Traceback for thread " in head
    if not (start[:1] in b"=#*-[(>" or start.startswith(_FIRST)):
        return False
    lines = [line for line in start.split(b"\n", 60)[:60] if line.strip()][:_PREFACE]
    for line in lines:
        form = next((form for form in _STARTS if form.match(line)), None)
        if form is not None:
            # launchers made by hand put the same before what a process prints
            return (
                form is not _OF_PROCESS or len(lines) == 1 or re.search(rb"\n\s*(?:Thread |Python v)", head) is not None
            )
        if _LABELLED.match(line):
            return False  # the label of a writer before what it says: a log, and what stands behind it is a part of it
        if not (line[:1] in b"=#*-[(>" or line.startswith(_PREFACES)):
            return False
    return False


def read(content: bytes, file: LogFile) -> Part:
    """Read the stacks of a file."""
    text = content.decode("utf-8", "replace")
    named = _FILE_RANK.search(file.path.replace("\\", "/").rpartition("/")[2])
    who = file.who
    if who.rank is None and named:
        who = msgspec.structs.replace(who, rank=int(named.group(1)))
    if text.lstrip()[:1] == "[" and '"frames"' in text[:8192]:
        return _of_json(text, who, file)
    lines = text.splitlines()
    stacks = stacks_of(lines, who, file.index)
    problem = None if stacks else "no stack could be read"
    if stacks and not stacks[-1].frames:
        problem = "it is cut off: the last stack has no frames"
    return Part(who=who, lines=len(lines), stacks=tuple(stacks), problem=problem)


def stacks_of(lines: Iterable[str], who: Who, file: int | None = None) -> list[Stack]:
    """Return the stacks of lines, of whatever tool; other lines between them are passed over."""
    reader = _Reader(who, file)
    for line in lines:
        reader.take(line.rstrip("\r\n"))
    reader.close()
    return reader.found


class _Reader:
    """Goes through the lines, with the thread that is open."""

    def __init__(self, who: Who, file: int | None) -> None:
        self.who = who
        self.file = file
        self.found: list[Stack] = []
        self.frames: list[Frame] = []
        self.head: tuple[str, bool, str] | None = None
        self.reverse = False

    def open(self, thread: str, main: bool, state: str, reverse: bool = False) -> None:
        self.close()
        self.head, self.reverse = (thread, main, state), reverse

    def close(self) -> None:
        if self.head is not None:
            thread, main, state = self.head
            frames = tuple(reversed(self.frames)) if self.reverse else tuple(self.frames)
            # Of threads without a name, that of the program itself begins in its file.
            main = main or bool(frames) and frames[-1].function in ("<module>", "_run_module_as_main")
            self.found.append(Stack(who=self.who, file=self.file, thread=thread, main=main, state=state, frames=frames))
        self.head, self.frames = None, []

    def take(self, line: str) -> None:
        if not line.strip():
            return
        if line[0] in " #" and self.head is not None and self._frame(line):
            return
        self._thread(line)

    def _frame(self, line: str) -> bool:
        for read in (_pyspy_frame, _fault_frame, _pystack_frame, _gdb_frame):
            frame = read(line)
            if frame is not None:
                self.frames.append(frame)
                return True
        return line.startswith("        ")

    def _thread(self, line: str) -> None:
        match = _PYSTACK_THREAD.match(line)
        if match:
            name = match.group(2) or match.group(1)
            first = not any(stack.who.pid == self.who.pid for stack in self.found) and self.head is None
            return self.open(name, first, match.group(3) or "", reverse=True)
        match = _FAULT_THREAD.match(line)
        if match:
            # Python lists the thread that dumps as the current one; the main thread is the last.
            return self.open(match.group(3) or match.group(2), False, "current" if match.group(1) != "Thread" else "")
        match = _PYSPY_THREAD.match(line)
        if match:
            name = match.group(3) or match.group(1)
            return self.open(name, name == "MainThread", match.group(2) or "")
        match = _GDB_THREAD.match(line)
        if match:
            return self.open(match.group(4) or match.group(3) or match.group(1), match.group(1) == "1", "")
        self._heading(line)

    def _heading(self, line: str) -> None:
        match = _PROCESS.match(line)
        if match:
            self.close()
            rank = _RANK.search(match.group(2) or "")
            rank_now = int(rank.group(1)) if rank else self.who.rank
            self.who = msgspec.structs.replace(self.who, pid=int(match.group(1)), rank=rank_now)
            return
        match = _HEADING.match(line)
        if match:
            self.close()
            self.who = Who(rank=int(match.group(1)), node=self.who.node, attempt=self.who.attempt)


def _pyspy_frame(line: str) -> Frame | None:
    match = _PYSPY_FRAME.match(line)
    if not match or line.startswith("    ("):
        return None
    return Frame(match.group(2), int(match.group(3)) if match.group(3) else None, match.group(1))


def _fault_frame(line: str) -> Frame | None:
    match = _FAULT_FRAME.match(line)
    return (
        Frame(match.group(1), int(match.group(2)) if match.group(2).isdigit() else None, match.group(3))
        if match
        else None
    )


def _pystack_frame(line: str) -> Frame | None:
    match = _PYSTACK_FRAME.match(line)
    if not match:
        return None
    path = match.group(2) if match.group(2) != "???" else match.group(5) or "???"
    return Frame(path, int(match.group(3)) or None, match.group(4))


def _gdb_frame(line: str) -> Frame | None:
    match = _GDB_FRAME.match(line)
    if not match:
        return None
    line_number = int(match.group(4)) if match.group(4) else None
    return Frame(match.group(3) or match.group(5) or "", line_number, match.group(1))


def _of_json(text: str, who: Who, file: LogFile) -> Part:
    import json

    problem = None
    try:
        threads = json.loads(text)
    except (ValueError, RecursionError) as error:
        from preflight.source.dumps.cut_json import salvage

        threads, problem = salvage(text), f"not whole JSON: {error}"
    stacks = []
    for one in threads if isinstance(threads, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("frames"), list):
            continue
        pid = one.get("pid")
        name = str(one.get("thread_name") or one.get("os_thread_id") or one.get("thread_id") or "")
        state = "active" if one.get("active") else "idle"
        stacks.append(
            Stack(
                who=msgspec.structs.replace(who, pid=pid) if isinstance(pid, int) else who,
                file=file.index,
                thread=name,
                main=name == "MainThread",
                state=f"{state}+gil" if one.get("owns_gil") else state,
                frames=tuple(_json_frame(frame) for frame in one["frames"] if isinstance(frame, dict)),
            )
        )
    return Part(who=who, stacks=tuple(stacks), problem=problem or (None if stacks else "no stack could be read"))


def _json_frame(frame: dict[str, object]) -> Frame:
    line = frame.get("line")
    return Frame(
        str(frame.get("filename") or ""),
        line if isinstance(line, int) and line > 0 else None,
        str(frame.get("name") or ""),
    )
