"""Unfolds a traceback that stands in one line: pasted without its line breaks, or with them written out as letters."""

from __future__ import annotations

import re

from preflight.source.logs.tracebacks import HEADER

_LONGEST = 100_000
_FRAME = re.compile(
    r'File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<name><\w+>|[\w.]+))?(?P<rest>.*)', re.DOTALL
)
_NEXT = re.compile(r'\s*(?=File "[^"]+", line \d)')
_CHAINED = re.compile(r"(?=During handling of the above exception|The above exception was the direct cause)")
_RAISED = re.compile(
    r"(?<!raise )(?<![\w.(])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration)(?::|\s*$)"
)

OF_A_MESSAGE = re.compile(r"""(?<![A-Za-z])(?:text|content|observation|completion)['"]? ?[=:] ?['"]$""")
"""What stands before a traceback that is said in a conversation: what a tool answered a model, and nothing that the program met."""


def unfolded(text: str) -> list[list[str]]:
    """Return the lines of each traceback that a line holds as a whole; none where it holds a header alone."""
    if "File " not in text:
        return []
    parts = text[:_LONGEST].split(HEADER)[1:]
    return [_lines(part) for part in parts if "File " in part and re.search(r'File \\*"[^"]+", line \d', part)]


def _lines(part: str) -> list[str]:
    """Return one traceback as lines, without its header."""
    if "\\n" in part:
        plain = part.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")
        return [line for line in plain.lstrip(": ").split("\n") if line.strip("'\",) ]}")]
    lines: list[str] = []
    for piece in _NEXT.split(part.lstrip(": ")):
        lines += _frame(piece)
    return lines


def _frame(piece: str) -> list[str]:
    """Return a frame, the line of code that follows it, and the exception that follows the last one."""
    found = _FRAME.match(piece)
    if found is None:
        return [piece] if piece else []
    name = f", in {found['name']}" if found["name"] else ""
    lines = [f'  File "{found["path"]}", line {found["line"]}{name}']
    rest, *chained = _CHAINED.split(found["rest"].strip(), maxsplit=1)
    raised = _RAISED.search(rest)
    code = rest[: raised.start()] if raised is not None else rest
    if code.strip():
        lines.append(f"    {code.strip()}")
    if raised is not None:
        lines.append(rest[raised.start() :].strip())
    return lines + chained
