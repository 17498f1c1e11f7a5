"""The forms of labels that were learnt from lines: what all of them have in common, as a shape and as an expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

LEARNT = "learnt:"
"""What the style of a file begins with whose label was learnt; the expression that finds the label stands behind it."""
PART = re.compile(
    r"(?P<level>\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|SEVERE|trace|debug|info|notice|warn(?:ing)?|error|critical)\b"
    r"|(?<![\w.])[IWEF](?=\d{4} ))|(?P<noon>\b[AP]M\b)"
    r"|(?P<month>\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b)|(?P<digits>\d+)|(?P<blanks>[ \t]+)|(?P<rest>[A-Za-z]+|.)",
    re.DOTALL,
)
AS = {
    "level": ("L", r"[A-Za-z]{1,8}"),
    "noon": ("N", r"[AP]M"),
    "month": ("M", r"[A-Z][a-z]{2}"),
    "digits": ("0", r"\d+"),
    "blanks": (" ", r"[ \t]+"),
}
NAME = r"(?=[\w.-]*\d)[A-Za-z](?:[\w.-]*\w)?"
"""The name of a machine; one without a digit is not learnt, as any word may stand there."""
_DIGITS = re.compile(r"\d+")
_OWN_MARK = re.compile(r"^<|\w[@#]")
"""What makes a label known by itself; another bracket, or a plain number, at the beginning of a line may be anything."""
_TOTAL = re.compile(r"(?:/| of )\d+")


@lru_cache(maxsize=64)
def pattern(style: str) -> re.Pattern[str]:
    """Return the expression of a learnt style."""
    return re.compile(style.removeprefix(LEARNT))


def shape_of(text: str) -> str:
    """Return what texts have in common that differ in their digits, levels, months and blanks alone."""
    return "".join(AS[kind][0] if (kind := match.lastgroup or "") in AS else match[0] for match in PART.finditer(text))


def style_for(line: str, start: int | None, kind: str, name: tuple[int, int] | None, others: Sequence[str] = ()) -> str:
    """Return the expression for labels of the shape of one: up to and with the number, or the name where there is none."""
    stop = start if start is not None and kind else (name or (0, 0))[1]
    parts, place = [r"\s*"], len(line) - len(line.lstrip())
    before = 0  # how many parts stand before the word that has the number in it
    while place < stop:
        if name is not None and place == name[0]:
            parts.append(rf"(?P<node>{NAME}|\d+)")
            place = name[1]
            continue
        match = PART.match(line, place)
        if match is None:
            break
        known = (match.lastgroup or "") in AS
        parts.append(AS[match.lastgroup or ""][1] if known else re.escape(match[0]))
        place = match.end()
        if match.lastgroup == "blanks":
            before = len(parts)
    if before and kind and not others and _OWN_MARK.search("".join(line[:stop].split()[-1:])):
        # A traceback has the label, and often no time before it.
        parts = [r"\s*", f"(?:{''.join(parts[1:before])})?", *parts[before:]]
    if others:
        parts = [f"(?:{'|'.join([''.join(parts), *map(expression_of, others)])})"]
    if kind and start is not None:
        parts.append(rf"(?P<{kind}>\d{{1,7}})")
        place = next(_DIGITS.finditer(line, start)).end()
    follows = line[place : place + 1]
    total = _TOTAL.match(line, place)
    if total is not None:
        parts.append(r"(?:/| of )\d+")
        follows = line[total.end() : total.end() + 1]
    closing = (
        rf"{re.escape(follows)}[^\w\s]*" if follows and not follows.isspace() and not follows.isalnum() else r"(?=\s|$)"
    )
    return f"{LEARNT}{''.join(parts)}{closing}"


def expression_of(text: str) -> str:
    """Return an expression for all texts of the shape of one."""
    parts = ((match.lastgroup or "", match[0]) for match in PART.finditer(text.lstrip()))
    return r"\s*" + "".join(AS[kind][1] if kind in AS else re.escape(part) for kind, part in parts)
