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
            lines.extend(_clean(line) if keep else "pass" for line in body)
        else:
            lines.extend(_clean(line) for line in source.splitlines())
        lines.append("")
    return "\n".join(lines) + "\n", tuple(firsts) or (1,)


def _text(cell: dict[str, object]) -> str:
    source = cell.get("source", cell.get("input", ""))
    return "".join(str(part) for part in source) if isinstance(source, list) else str(source)


def _clean(line: str) -> str:
    magic = _MAGIC.match(line)
    return f"{magic.group(1)}pass" if magic else line
