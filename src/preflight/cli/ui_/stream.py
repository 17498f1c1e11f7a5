"""What one connection was sent, and so what it lacks: sections that changed, points that are new."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from preflight.cli.ui_.feed import Frame
from preflight.cli.ui_.view import Heat
from preflight.monitor.dashboard.board import Key
from preflight.report.parts.clean import clean

_AGAIN = 3
"""Columns of the heatmap that are sent again: a rank that is behind may still add to them."""


class Stream:
    """The state of one connection. A new one is sent everything, so that nothing has to be remembered across them."""

    def __init__(self) -> None:
        self._frame = 0
        self._sections: dict[str, bytes] = {}
        self._curves: dict[Key, tuple[int, int]] = {}
        self._heat = Heat()

    def news(self, frame: Frame) -> Iterator[bytes]:
        """Yield events with what is new in a frame."""
        if frame.number == self._frame:
            return
        self._frame = frame.number
        for name, content in frame.sections.items():
            if self._sections.get(name) != content:
                self._sections[name] = content
                yield event(name, content)
        pieces = self._pieces(frame)
        if pieces:
            gone = [_named(key) for key in self._curves if key not in frame.curves]
            yield event("curves", msgspec.json.encode({"pieces": pieces, "gone": gone}))
        if frame.heat != self._heat:
            yield event("heat", msgspec.json.encode(self._columns(frame.heat)))
        yield event("frame", b"{}", frame.number)

    def _pieces(self, frame: Frame) -> list[dict[str, Any]]:
        found = []
        for key, curve in frame.curves.items():
            generation, start = self._curves.get(key, (-1, 0))
            piece = curve.since(generation, start)
            if piece is None:
                continue
            self._curves[key] = (piece.generation, piece.start + len(piece.steps))
            found.append(
                {
                    "id": _named(key), "chart": key.chart, "subject": clean(key.subject), "rank": key.rank,
                    "start": piece.start, "steps": piece.steps, "values": [_short(value) for value in piece.values],
                }
            )  # fmt: skip
        return found

    def _columns(self, heat: Heat) -> dict[str, Any]:
        known, self._heat = self._heat, heat
        same = (known.width, known.ranks) == (heat.width, heat.ranks) and len(known.columns) <= len(heat.columns)
        start = max(len(known.columns) - _AGAIN, 0) if same else 0
        return {
            "width": heat.width, "ranks": heat.ranks, "left_out": heat.left_out, "start": start,
            "columns": heat.columns[start:],
        }  # fmt: skip


def event(name: str, content: bytes, number: int | None = None) -> bytes:
    """Return a message of the stream; JSON holds no line ends."""
    head = b"" if number is None else b"id: %d\n" % number
    return head + b"event: " + name.encode() + b"\ndata: " + content + b"\n\n"


def _named(key: Key) -> str:
    return f"{key.chart}|{clean(key.subject)}|{key.rank}"


def _short(value: float | None) -> float | None:
    """Return a value with the digits that a picture can show."""
    return None if value is None else float(f"{value:.6g}")
