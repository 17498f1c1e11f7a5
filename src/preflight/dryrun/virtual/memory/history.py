"""What the allocator did, in the form of ``torch.cuda.memory._snapshot()``, which PyTorch's memory visualiser opens.

Source of the form: the docstrings of ``torch/cuda/memory.py`` and what ``torch/cuda/_memory_viz.py`` reads.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from preflight.dryrun.virtual.memory.allocator import Block, Segment, blocks

if TYPE_CHECKING:
    from preflight.dryrun.virtual.memory.ledger import Holding, Ledger


class History:
    """The events of one device, in order: action, address, bytes, and what the bytes are for."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, int, Holding | None]] = []

    def note(self, action: str, address: int, size: int, holding: Holding | None = None) -> None:
        """Add an event."""
        self.events.append((action, address, size, holding))

    def freed(self, holding: Holding) -> None:
        """A block was given back: at once, because everything runs on one stream."""
        if holding.block is not None:
            for action in ("free_requested", "free_completed"):
                self.note(action, holding.block.address, holding.size, holding)


def write(path: str, history: History, ledger: Ledger) -> None:
    """Write a snapshot: the segments as they are now, and how they came to be so."""
    with open(path, "wb") as file:
        pickle.dump(snapshot(history, ledger), file)


def snapshot(history: History, ledger: Ledger) -> dict[str, Any]:
    """Return the snapshot as plain values."""
    held = {h.block.address: h for h in ledger.live.values() if h.block is not None}
    trace = []
    for number, (action, address, size, holding) in enumerate(history.events):
        entry = {"action": action, "size": size, "stream": 0, "time_us": number, "frames": _frames(holding)}
        entry["device_free" if action == "oom" else "addr"] = address
        if holding is not None and holding.category:
            entry["user_metadata"] = holding.category
        trace.append(entry)
    return {
        "segments": [_segment(piece, held) for segment in ledger.allocator.segments for piece in _pieces(segment)],
        "device_traces": [trace],
        "allocator_settings": {"expandable_segments": bool(ledger.allocator.expandable)},
    }


def _pieces(segment: Segment) -> Iterator[list[Block]]:
    """Yield the blocks of each stretch of a segment that memory lies behind: an expandable one may have several."""
    for mapped, group in groupby(blocks(segment), key=lambda block: block.mapped):
        if mapped:
            yield list(group)


def _segment(piece: list[Block], held: dict[int, Holding]) -> dict[str, Any]:
    shown: list[dict[str, Any]] = [
        {
            "address": block.address,
            "size": block.size,
            "requested_size": block.requested,
            "state": "inactive" if block.free else "active_allocated",
            "frames": _frames(None if block.free else held.get(block.address)),
        }
        for block in piece
    ]
    segment = piece[0].segment
    active = sum(b["size"] for b in shown if b["state"] == "active_allocated")
    return {
        "device": 0,
        "address": piece[0].address,
        "total_size": sum(block.size for block in piece),
        "stream": segment.stream,
        "segment_type": "small" if segment.small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": segment.expandable,
        "allocated_size": active,
        "active_size": active,
        "requested_size": sum(b["requested_size"] for b in shown),
        "blocks": shown,
        "frames": [],
    }


def _frames(holding: Holding | None) -> list[dict[str, Any]]:
    """Return the operator, the module and the line of the script, the innermost first."""
    if holding is None:
        return []
    file, _, line = holding.line.rpartition(":")
    place = {"filename": file or "(unknown)", "line": int(line) if line.isdigit() else 0}
    inner = f"{holding.phase} {holding.step}: {holding.module or '(no module)'}"
    return [{"filename": "aten", "line": 0, "name": holding.operator}, {**place, "name": inner}]
