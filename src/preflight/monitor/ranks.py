"""What ranks do together in one iteration: which of them talk to each other, what they exchange, what they are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from preflight.monitor.fetches import numel
from preflight.monitor.window import Call, Window

REDUCING = frozenset(
    f"collective.{word}"
    for word in ("all_reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather", "all_gather_into_tensor")
)
SENDING = frozenset(f"collective.{word}" for word in ("send", "recv", "isend", "irecv", "batch_isend_irecv"))
EXCHANGING = frozenset({"collective.all_to_all", "collective.all_to_all_single"})
_ENOUGH = 0.4
"""The share of the weights that collectives must move for the gradients to count as exchanged."""
_LOOKS = 16


def group_of(call: Call, window: Window) -> tuple[int, ...]:
    """The ranks that take part in a collective."""
    number = (call.args or {}).get("group", 0)
    known = window.run.groups.get(number)
    return tuple(known) if known else tuple(range(window.run.world)) if number == 0 else ()


def reduced(window: Window, until: str = "step") -> dict[tuple[int, ...], int]:
    """Elements that collectives moved between a backward pass and the first ``until`` after it, by group of ranks."""
    found: dict[tuple[int, ...], int] = {}
    ends = sorted(call.q for call in window.named(until))
    begun = -1
    for call in window.calls:
        if call.name == "backward":
            begun = call.q
        elif call.name in REDUCING and begun >= 0 and not any(begun < end < call.q for end in ends):
            group = group_of(call, window)
            if any(end > call.q for end in ends):
                found[group] = found.get(group, 0) + numel((call.args or {}).get("shape") or [0])
    return found


def uses(windows: Iterable[Window], names: frozenset[str]) -> bool:
    """Whether one of the windows has a call of these names."""
    return any(name in names for window in windows for name in window.names())


def given(window: Window) -> tuple[Any, ...] | None:
    """What went into the models of the program in passes that train, by fingerprints; None where nothing is known."""
    trained = {call.object for call in window.named("forward") if call.context.startswith("grad")}
    rows = [
        (tuple(batch.bits), tuple(tuple(shape) for shape in batch.shapes))
        for batch in window.batches
        if batch.loader.startswith("forward:") and batch.loader[8:] in trained
    ]
    if not rows or any(bits is None for row in rows for bits in row[0]):
        return None
    return tuple(rows) if max((numel(list(shape)) for row in rows for shape in row[1]), default=0) >= 8 else None


def apart(windows: Mapping[int, Window]) -> bool | None:
    """Whether the ranks train on different inputs; None where that is not known of all of them."""
    told = [given(window) for window in windows.values()]
    if any(one is None for one in told):
        return None
    return any(one != told[0] for one in told[1:])


class Wrapped:
    """Which ranks the wrappers of a program say are replicas of each other, or hold the parts of one model.

    Attributes:
        groups: Ranks over which data is meant to differ, as told by wrappers for data parallelism.
        alone: Whether a wrapper was given a group of a single rank.
    """

    def __init__(self) -> None:
        self.groups: set[tuple[int, ...]] = set()
        self.alone = False

    def see(self, windows: Mapping[int, Window]) -> None:
        """Take in what was wrapped in these windows."""
        for window in windows.values():
            for name in ("wrap.ddp", "wrap.fsdp2"):
                for call in window.named(name):
                    ranks = (call.result or {}).get("ranks")
                    if ranks and len(ranks) > 1:
                        self.groups.add(tuple(ranks))
                    elif ranks and window.run.world > 1:
                        self.alone = True


class Together(Wrapped):
    """The ranks that train one model: those that a wrapper names, and those whose program exchanges gradients itself.

    The latter are looked for in the first iterations: collectives that move a good part of the weights between a backward
    pass and a step.
    """

    def __init__(self) -> None:
        super().__init__()
        self._left = _LOOKS

    def see(self, windows: Mapping[int, Window]) -> None:
        """Take in what was wrapped or exchanged in these windows."""
        super().see(windows)
        if not self._left or not any(window.named("step") for window in windows.values()):
            return
        self._left -= 1
        for window in windows.values():
            moved = reduced(window)
            owned = _owned(window) if moved else 0
            self.groups |= {group for group, count in moved.items() if len(group) > 1 and count >= _ENOUGH * owned > 0}


def _owned(window: Window) -> int:
    """How many numbers are trained."""
    return sum(one.numel for one in window.run.variables.values() if one.kind == "parameter" and one.trainable)
