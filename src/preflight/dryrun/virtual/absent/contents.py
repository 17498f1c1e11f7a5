"""What a missing file of data may hold, by its ending and by what the code does with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual.absent import callers, formats, lines, records, uses


def content(path: str, owns: Callable[[str], bool]) -> bytes | None:
    """Return what a missing file may hold, or None where its form is not known.

    Args:
        path: Its path.
        owns: Whether a file is the person's own code.
    """
    ending = os.path.splitext(path)[1].lower()
    own = callers.own_frame(owns)
    asking = tuple(dict.fromkeys((records.script(), *((own.f_code.co_filename,) if own is not None else ()))))
    if ending in formats.PICTURES:
        return _once(("picture", ending, formats.is_mask(path)), lambda: formats.picture(path))
    if ending in formats.SOUNDS:
        rate = uses.number(owns, ("sampling_rate", "sample_rate", "sr", "fs", "samplerate")) or 16_000
        return _once(("sound", rate), lambda: formats.sound(rate))
    if ending in formats.ARRAYS:
        count = uses.dimensions(own) if own is not None else 1
        shape = (1 << 22,) if count == 1 else (256,) * count
        return _once(shape, lambda: formats.array(shape, "<u2" if count == 1 else "<f4"))
    if ending in formats.TEXTS:
        fields = lines.text(own) if own is not None else None
        return (fields or formats.text()).encode()
    if ending in (".json", ".jsonl"):
        if own is not None and ending == ".json" and uses.holds_names(own):
            return None
        return _once((asking, ending), lambda: _rows(asking, ending))
    return _once((asking, ending), lambda: records.table("\t" if ending == ".tsv" else ",", *asking).encode())


def _rows(asking: tuple[str, ...], ending: str) -> bytes:
    rows = [records.record(number, *asking) for number in range(formats.ROWS)]
    return json.dumps(rows).encode() if ending == ".json" else "\n".join(map(json.dumps, rows)).encode() + b"\n"


_kept: dict[Any, bytes] = {}


def _once(key: Any, make: Callable[[], bytes]) -> bytes:
    if key not in _kept:
        _kept[key] = make()
    return _kept[key]
