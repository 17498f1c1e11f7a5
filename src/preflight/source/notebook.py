"""Jupyter notebooks: the code cells as one script, with the cells' places kept."""

from __future__ import annotations

import re

import msgspec

from preflight.errors import InputError

_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[\w.]+\s*=\s*!|[\w.]+\?{1,2}\s*$)")


def code_of(data: bytes, shown: str) -> tuple[str, tuple[int, ...]]:
    """Return the joined code of a notebook and the first line of each of its code cells.

    Magics and shell lines become ``pass``, so that line numbers stay.

    Raises:
        InputError: The bytes are not a notebook.
    """
    try:
        book = msgspec.json.decode(data)
        cells = book["cells"] if "cells" in book else book["worksheets"][0]["cells"]
        sources = [_text(cell) for cell in cells if cell.get("cell_type") == "code"]
    except (msgspec.DecodeError, RecursionError, KeyError, IndexError, TypeError, AttributeError):
        raise InputError(f"{shown}: is not a Jupyter notebook (no list of cells)") from None
    lines: list[str] = []
    firsts: list[int] = []
    for source in sources:
        firsts.append(len(lines) + 1)
        if source.lstrip().startswith("%%"):
            first = source.lstrip().split(None, 1)[0]
            keep = first in {"%%time", "%%timeit", "%%capture"}
            body = source.splitlines()
            lines.extend(_cleaned(body) if keep else ["pass"] * len(body))
        else:
            lines.extend(_cleaned(source.splitlines()))
        lines.append("")
    return "\n".join(lines) + "\n", tuple(firsts) or (1,)


def _text(cell: dict[str, object]) -> str:
    source = cell.get("source", cell.get("input", ""))
    return "".join(str(part) for part in source) if isinstance(source, list) else str(source)


def _cleaned(lines: list[str]) -> list[str]:
    """The lines of a cell without magics and shell lines: these begin a statement, and go on after a backslash."""
    found: list[str] = []
    inside = _Inside()
    goes_on = False
    for line in lines:
        if goes_on:
            found.append("")
            goes_on = line.rstrip().endswith("\\")
            continue
        magic = _MAGIC.match(line) if inside.statement_ended else None
        if magic is None:
            inside.read(line)
            found.append(line)
        else:
            found.append(f"{magic.group(1)}pass")
            goes_on = line.rstrip().endswith("\\")
    return found


class _Inside:
    """Whether the lines read so far leave a bracket, a text of several lines, or a backslash open."""

    _PART = re.compile(r"\"{3}|'{3}|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|#.*|[(\[{]|[)\]}]")

    def __init__(self) -> None:
        self._depth = 0
        self._quotes = ""
        self._joined = False

    @property
    def statement_ended(self) -> bool:
        """Whether the next line begins a statement."""
        return self._depth <= 0 and not self._quotes and not self._joined

    def read(self, line: str) -> None:
        """Take one line of code in."""
        self._joined = line.endswith("\\")
        at = 0
        while True:
            if self._quotes:
                end = line.find(self._quotes, at)
                if end < 0:
                    return
                at, self._quotes = end + 3, ""
            part = self._PART.search(line, at)
            if part is None:
                return
            at, text = part.end(), part.group()
            if len(text) == 3 and text in ('"""', "'''"):
                self._quotes = text
            elif text in "([{":
                self._depth += 1
            elif text in ")]}":
                self._depth -= 1
