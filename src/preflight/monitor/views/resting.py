"""Whether what an optimizer holds stays as it is, to the last bit, as long as it has never stepped."""

from __future__ import annotations

from preflight.monitor.window import State

MOMENT = "waiting"
"""The moment of a look at the parameters of an optimizer that has never stepped, while there are gradients for them."""


class Resting:
    """Follows the looks at the parameters of optimizers that have never stepped.

    A step that is compiled, or an update by hand, is not seen; that something moved is.
    """

    def __init__(self) -> None:
        self._bits: dict[int, dict[int, int | None]] = {}
        self._same: dict[int, int] = {}  # by optimizer, in how many looks all was as before; -1 once it was not

    def see(self, state: State) -> int:
        """Take in a look; the optimizer whose parameters it shows, -1 where it is no look of this kind."""
        if state.moment != MOMENT or state.what != "parameter":
            return -1
        index = int((state.extra or {}).get("optimizer", -1))
        bits = dict(zip(state.ids, state.bits or [None] * len(state.ids), strict=True))
        before = self._bits.get(index)
        self._bits[index] = bits
        if before is None or self._same.get(index, 0) < 0:
            return index
        # One that cannot be read, or is held by now and was not before, leaves it open whether anything moved.
        known = None not in bits.values() and bits.keys() == before.keys()
        if known and bits == before:
            self._same[index] = self._same.get(index, 0) + 1
        elif any(before.get(ident, own) not in (own, None) and own is not None for ident, own in bits.items()):
            self._same[index] = -1
        return index

    def rests(self, index: int) -> bool:
        """Whether everything it holds was seen twice, and was the same each time."""
        return self._same.get(index, 0) > 0

    def moved(self) -> list[int]:
        """The optimizers that have not stepped, and whose parameters something else has changed."""
        return sorted(index for index, same in self._same.items() if same < 0)

    def as_seen(self, index: int, state: State) -> bool:
        """Whether a state shows all that was seen of an optimizer, and as it was."""
        seen = self._bits.get(index, {})
        now = dict(zip(state.ids, state.bits or (), strict=False))
        same = all(bits is not None and now.get(ident) == bits for ident, bits in seen.items())
        return bool(seen) and same and self._same.get(index, 0) >= 0
