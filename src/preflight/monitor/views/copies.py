"""Which weights that no optimizer steps are copies of weights that one does: targets, teachers, averages."""

from __future__ import annotations

from preflight.monitor.window import State, Variable, Window

_CLOSE = 2e-6
_AVERAGED = 1e-5
"""How far apart the norms of a copy and its original are when they are first seen, as a share, where the copy was averaged
with it already; those of matrices that were drawn apart differ by a thousandth and more."""


def begun_alike(norm: float, other: float) -> bool:
    """Whether an average and what it follows may have begun as the same weights, by their norms when they were first seen."""
    return abs(other - norm) <= _AVERAGED * min(norm, other)


def is_trained(one: Variable) -> bool:
    """Whether an optimizer steps a parameter: one that needs no gradient is only held by it."""
    return one.optimizer >= 0 and one.trainable


class Copies:
    """Remembers how parameters were when they were first seen, and pairs copies with what they were made from."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[float | None, int | None]] = {}

    def see(self, state: State) -> None:
        """Take in a state of parameters with fingerprints."""
        if not self._first.keys() >= set(state.ids):
            for ident, norm, bits in zip(state.ids, state.norm, state.bits or (), strict=False):
                self._first.setdefault(ident, (norm, bits))

    def originals(self, ident: int, window: Window, exact: bool) -> list[Variable]:
        """Trained matrices that a weight equalled at first: in every bit, or in norm where it may have moved since."""
        copy = window.run.variables.get(ident)
        if copy is None or is_trained(copy) or len(copy.shape) < 2 or ident not in self._first:
            return []
        norm, bits = self._first[ident]
        if not norm or norm != norm:
            return []
        word = copy.name.rpartition(".")[2]
        found = []
        for one in window.run.variables.values():
            if one.optimizer < 0 or not one.trainable or one.shape != copy.shape or one.name.rpartition(".")[2] != word:
                continue
            size, number = self._first.get(one.id, (None, None))
            alike = size is not None and abs(size - norm) <= _CLOSE * norm
            if (number is not None and number == bits) if exact else alike:
                found.append(one)
        return found


def untrained(window: Window, moment: str) -> list[State]:
    """States with fingerprints of the parameters that no optimizer holds, or only one that has not stepped yet."""
    return [
        state
        for state in window.states
        if state.moment == moment
        and state.what == "parameter"
        and state.bits
        and (state.extra or {}).get("optimizer") == -1
    ]
