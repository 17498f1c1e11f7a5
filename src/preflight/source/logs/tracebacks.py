"""Reads Python tracebacks out of the lines of one writer: plain, chained, boxed by rich, of groups, cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from preflight.vocabulary.log import Frame

HEADER = "Traceback (most recent call last)"
MOST_LINES = 600
"""Lines after which a traceback is taken as cut off."""
_LONGEST = 2000
_LONGEST_CODE = 200
_MESSAGE_LINES = 12
_OF_OTHERS = 40
"""So many lines behind the last frame belong to what the program did next, where none of them names an exception."""

_FRAME = re.compile(r'^[\s|+]*File "([^"]+)", line (\d+)(?:, in (.+))?')
_NOTEBOOK = re.compile(
    r"^(?:File )?\[?(?P<path>[~/.\w][^\s\]]*?\.py)(?:\]\S*)?(?::(?P<line>\d+),?)? in (?P<name>[\w.<>]+)\("
)
_CELL = re.compile(
    r"^(?:(?:File )?(?P<path><ipython-input-[\w-]+>|[~/.\w][^\s\]]*\.py)|(?P<prompt>(?:Cell|Input) In ?\[\d+\]),?)"
    r"(?::(?P<line>\d+))?(?: line (?P<number>\d+),?)?(?: in (?P<name>[\w.<>?]+|<cell line: \d+>)(?:\(|\s*$)|(?<=\d)\s*$)"
)
"""A frame of a cell, or of a module while it is imported, as IPython shows it; newer versions leave ``<module>`` out."""
_EDITOR = re.compile(
    r"^(?P<path>\S.*\.ipynb) Cell \d+'? (?:in (?P<name>[\w.<>]+|<cell line: \d+>)(?:\(|\s*$)|line (?P<line>\d+)\s*$)"
)
"""The same as Visual Studio Code shows it, by the file of the notebook and the number of the cell."""
_CODE = re.compile(
    r"^\s{4,}(?![\s~^]|\.{3}<|\d+\s|<a href=)(\S.*)|^\s*(?:│\s*❱|-{2,}>)\s*(?:\d+|<a href='[^']*'>\d+</a>)[\s│]+(\S.*)"
)
"""What stands on the line of a frame: below it, or where an arrow points."""
_NAMED = re.compile(r"(?<![\w.])([A-Za-z_][\w.]{0,200})\s{1,200}$")
_BOXED = re.compile(r"^\s*[│|]\s+(\S.*?):(\d+)\s+in\s+(\S+)")
_BOX = re.compile(r"^\s*[│|╭╰┌└❱]")
_RAISED = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:\([\w.]+\))?(?::\s?(.*))?$")
_GROUP = re.compile(r"^[\s|+-]*[|+][\s|+-]*")
_CARETS = re.compile(r"^\s*[~^]{2,}(?=[A-Za-z_])")
"""What marks a place in the line above, where the end of its line was lost."""
_LOOKS_RAISED = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Timeout|Failure|Fault|Abort\w*|Cancelled\w*|Group|Unsupported|"
    r"NotFound|Empty|Full|Stop\w*|Missing\w*|Invalid\w*|\.exc\.\w+|exceptions?\.\w+)$"
)
_RETOLD = "in user code:"
"""What TensorFlow's tracer puts in place of the message of an exception, which it tells again below, indented, with its frames."""
_RETOLD_FRAME = re.compile(r"^\s+(/?\S[^:]*\.py):(\d+) (\S+)(?: +\*{1,2})?$")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_LOG_LINE = re.compile(
    r"^(?:\[?\d{4}[-/]\d\d|:?\[?[IWEF]\d{3,4} \d\d:|\[?(?:INFO|WARNING|ERROR|DEBUG)\b|Traceback |\[rank|\[default|srun:|slurmstepd:|"
    r"Exception (?:raised from|ignored in)|During handling|The above exception|-- Process |={5}|-{5}|\+[-=]|\d+%\|| *\d+%\||\{')"
)


class Parsed(NamedTuple):
    """A traceback.

    Attributes:
        exception: The class; empty where the traceback is cut off before it.
        message: What the exception says.
        frames: From the outermost.
        chained: Another one follows, of which it is the cause or the context.
        last: Number of its last line among those given: that of the exception.
    """

    exception: str
    message: str
    frames: tuple[Frame, ...]
    chained: bool
    last: int


def parse(lines: Iterable[str]) -> Parsed:
    """Read one traceback.

    Args:
        lines: The lines of the writer behind the header, without what stands before each of them.
    """
    frames: list[Frame] = []
    exception = ""
    message: list[str] = []
    last = number = framed = -1
    seen = 0
    boxed = ended = retold = False
    for number, line in enumerate(lines):
        if number >= MOST_LINES:
            break
        if len(frames) > seen:
            seen, framed = len(frames), number
        if retold and (not line.strip() or line[0].isspace()):
            found = _FRAME.match(line) or _RETOLD_FRAME.match(line)
            if found:
                frames.append(Frame(found[1], int(found[2]), (found[3] or "").rstrip(" *")))
            elif raised := _exception(line.strip(), True):
                exception, message, last = raised[0], [raised[1]], number
            continue
        if retold:
            break
        if exception:
            if line.startswith(_CHAINED):
                return _parsed(exception, message, frames, True, last)
            ended = ended or _ends_message(line, message)
            if ended and (line.strip() or number - last > 3):
                break
            if not ended:
                message.append(line.rstrip())
            continue
        found = _FRAME.match(line) or _BOXED.match(line)
        if found:
            frames.append(Frame(found[1], int(found[2]), (found[3] or "").strip()))
            boxed = boxed or found.re is _BOXED
            continue
        cell = _NOTEBOOK.match(line)
        if cell:
            frames.append(Frame(cell["path"], int(cell["line"] or 0), _plain(cell["name"])))
            continue
        if (of_cell := _of_cell(line)) is not None:
            frames.append(of_cell)
            continue
        code = _CODE.match(line) if frames and not frames[-1].code else None
        if code:
            frames[-1] = msgspec.structs.replace(frames[-1], code=(code[1] or code[2])[:_LONGEST_CODE].rstrip(" │"))
            continue
        if line.startswith(_CHAINED) or HEADER in line:
            break
        text = line if not boxed else line.strip()
        raised = _exception(text, bool(frames))
        if raised and not (boxed and _BOX.match(line)):
            exception, first = raised
            message = [first]
            last = number
            retold = first.strip() == _RETOLD
            ended = ":" not in text  # without a message Python prints the class alone: what stands below is another's
    if last < 0:
        last = framed if framed >= 0 and number - framed >= _OF_OTHERS else number
    return _parsed(exception, message, frames, False, last)


def _of_cell(line: str) -> Frame | None:
    """Return the frame of a cell of a notebook, or of a module that it imports; its top is called ``<module>`` as that of a script."""
    if ".ipynb Cell " in line and (shown := _EDITOR.match(line)) is not None:
        name = shown["name"] or "<module>"
        return Frame(shown["path"], int(shown["line"] or 0), "<module>" if name.startswith("<cell") else _plain(name))
    found = _CELL.match(line)
    if found is None or not (found["name"] or found["prompt"] or line.startswith("File ")):
        return None
    name = found["name"] or "<module>"
    number = int(found["line"] or found["number"] or 0)
    return Frame(found["path"] or found["prompt"], number, "<module>" if name.startswith("<cell") else _plain(name))


def _plain(name: str) -> str:
    """Return the name of a function as Python prints it: newer versions of IPython put its class before it."""
    return name.rpartition(".")[2]


def named_in(header: str) -> str:
    """Return the exception that a notebook names in the header of its traceback, far to the left; empty where there is none."""
    place = header.find(HEADER)
    found = _NAMED.search(header[max(place - 400, 0) : place]) if place > 0 else None
    return found[1] if found and _LOOKS_RAISED.search(found[1]) else ""


def raised_in(line: str) -> bool:
    """Return whether a line is the last one of a traceback, which names the exception."""
    return _exception(line, True) is not None


def _parsed(exception: str, message: list[str], frames: list[Frame], chained: bool, last: int) -> Parsed:
    while message and not message[-1].strip():
        message.pop()
    return Parsed(exception, "\n".join(message)[:_LONGEST], tuple(frames), chained, last)


def _exception(line: str, frames: bool) -> tuple[str, str] | None:
    """Return class and message where the line is the last one of a traceback: it is not indented."""
    if "^" in line:
        line = _CARETS.sub("", line)
    if line.startswith("**"):  # who quotes it has made it bold
        line = line.strip("* ")
    if not line or (line[0].isspace() and not _GROUP.match(line)):
        return None
    text = _GROUP.sub("", line) if line[0] in " |+" else line
    found = _RAISED.match(text)
    if not found or _LOG_LINE.match(text):
        return None
    if _LOOKS_RAISED.search(found[1]) or (
        frames and found[2] is not None and (found[1][0].isupper() or "." in found[1])
    ):
        return found[1], (found[2] or "")
    if frames and found[2] is None and found[1][0].isupper():
        return found[1], ""
    return None


def _ends_message(line: str, message: list[str]) -> bool:
    if (
        line.lstrip().startswith(("+-", "| "))
        or not line.strip()
        or len(message) >= _MESSAGE_LINES
        or _LOG_LINE.match(line)
    ):
        return True
    return _RAISED.match(line) is not None and _LOOKS_RAISED.search(line.split(":", 1)[0]) is not None
