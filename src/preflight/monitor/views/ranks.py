"""What ranks do together in one iteration: which of them talk to each other, what they exchange, what they are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from preflight.monitor.views.fetches import numel
from preflight.monitor.window import Call, Variable, Window

REDUCING = frozenset(
    f"collective.{word}"
    for word in ("all_reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather", "all_gather_into_tensor")
)
SENDING = frozenset(f"collective.{word}" for word in ("send", "recv", "isend", "irecv", "batch_isend_irecv"))
EXCHANGING = frozenset({"collective.all_to_all", "collective.all_to_all_single"})
_ENOUGH = 0.4
"""The share of the weights that collectives must move for the gradients to count as exchanged."""
_LOOKS = 16
_NEARLY = 0.9
"""The share of parameters that must have drifted apart; those that get no gradient stay as they are."""


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


def unplaced(window: Window) -> dict[str, Variable]:
    """Parameters that no wrapper or placement speaks for, by name."""
    return {
        variable.name: variable
        for variable in window.run.variables.values()
        if variable.kind == "parameter"
        and (
            variable.spread is None
            or (variable.spread["kind"] == "replicated" and len(variable.spread.get("ranks", ())) == 1)
        )
    }


def parameters(window: Window) -> dict[str, list[int]]:
    """Fingerprints of parameters at the moments of the window's steps, in order, by name."""
    found: dict[str, list[int]] = {}
    for state in sorted(window.states, key=lambda one: one.q):
        if state.what != "parameter" or state.moment not in ("before_step", "after_step") or state.bits is None:
            continue
        for ident, bits in zip(state.ids, state.bits, strict=True):
            if bits is not None:
                found.setdefault(window.run.name(ident), []).append(bits)
    return found


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


class Silence:
    """What ranks have in common that exchange nothing: whether their weights were equal, and whether they still are.

    Attributes:
        steps: Steps since the first one of which all ranks told their weights.
        sent: Whether any tensor of more than one number was sent.
        apart: Names of parameters that were equal before that step and differ after the last one that was compared.
        alike: Steps up to the last one that was compared, where all parameters are equal and some of them changed; else 0.
    """

    def __init__(self) -> None:
        self.steps = self.alike = 0
        self.sent = False
        self.apart: set[str] = set()
        self._equal: dict[str, bool] = {}
        self._moving: set[str] = set()
        self._first = -1
        self._owned = self._before = self._since = 0
        self._otherwise = False

    def see(self, windows: Mapping[int, Window]) -> None:
        """Take in an iteration of all ranks."""
        first = next(iter(windows.values()))
        self._count(first)
        if len(windows) != first.run.world or not all(window.named("step") for window in windows.values()):
            return
        told, owned = [parameters(window) for window in windows.values()], unplaced(first)
        names = [name for name in owned if all(name in one for one in told)]
        if names:
            if self._first < 0:
                self._first = first.step
            self._owned = sum(owned[name].numel for name in names)
            self._compare(told, names)
        if self._first >= 0:
            self.steps = first.step + len(first.named("step")) - self._first
            self.alike = self.steps if names and self._stayed() else self.alike if self._stayed() else 0

    def _count(self, window: Window) -> None:
        for call in window.plain:
            shape = (call.args or {}).get("shape") if call.name.startswith("collective.") else None
            if shape and numel(shape) > 1:
                self.sent = True
                self._otherwise = self._otherwise or call.name in SENDING or call.name in EXCHANGING
                if self._first < 0:
                    self._before += numel(shape)
                else:
                    self._since += numel(shape)
            elif call.name.startswith("wrap."):
                self.sent = self._otherwise = True

    def _compare(self, told: list[dict[str, list[int]]], names: list[str]) -> None:
        for name in names:
            if name not in self._equal:
                self._equal[name] = len({one[name][0] for one in told}) == 1
        self._moving.update(name for name in names if any(one[name][0] != one[name][-1] for one in told))
        self.apart = {name for name in names if self._equal[name] and len({one[name][-1] for one in told}) > 1}

    def _stayed(self) -> bool:
        return bool(self._moving) and not self.apart and all(self._equal.values())

    @property
    def handed_out(self) -> bool:
        """Whether collectives moved a good part of the weights before the first step."""
        return self._before >= _ENOUGH * max(self._owned, 1)

    @property
    def whole(self) -> bool:
        """Whether nothing was seen by which the ranks could exchange what they learn."""
        return bool(self._equal) and not self._otherwise and self._since < _ENOUGH * max(self._owned, 1)

    @property
    def all_apart(self) -> bool:
        """Whether nearly all weights that are trained were equal once and differ now."""
        return bool(self._moving) and len(self.apart & self._moving) >= _NEARLY * len(self._moving)
