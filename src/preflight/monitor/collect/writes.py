"""Writes to parameters between two steps of their optimizer, as torch counts them; what is written to ``.data`` is not."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from .roster import Lot

_MOST_WRITTEN = 100
_version = attrgetter("_version")


class _Last(NamedTuple):
    """What an optimizer held when it stepped: the numbers of the variables, which tensors they were, and their writes."""

    idents: list[int]
    tensors: list[int]
    versions: list[int]


class Writes:
    """Remembers of each variable which tensor it was after the last step, and how often that had been written to."""

    def __init__(self) -> None:
        self._versions: dict[int, tuple[int, int]] = {}
        self._last: _Last | None = None  # of the last step, as long as no other optimizer has stepped

    def stepped(self, lot: Lot) -> None:
        """Note the variables of an optimizer that has just stepped."""
        last = self._last
        if last is not None and last.idents is lot.idents:  # the same list of numbers stands for the same tensors
            tensors = last.tensors
        else:
            self._merge()
            tensors = [*map(id, lot.tensors)]
        self._last = _Last(lot.idents, tensors, [*map(_version, lot.tensors)])

    def since(self, lot: Lot) -> list[int]:
        """Variables that were written to since the optimizer's last step."""
        last = self._last
        # The same list of numbers, as above.
        if last is not None and last.idents is lot.idents and last.versions == [*map(_version, lot.tensors)]:
            return []  # as after nearly every step
        self._merge()
        known = self._versions
        return [
            variable.ident
            for variable, tensor in lot.pairs()
            if variable.kind == "parameter" and known.get(variable.ident, (None, 0))[0] == id(tensor)
            if known[variable.ident][1] != tensor._version
        ][:_MOST_WRITTEN]

    def replaced(self, lot: Lot) -> bool:
        """Whether tensors stand under names under which an optimizer has stepped others, as those of a new model do."""
        self._merge()
        known = self._versions
        return any(
            known.get(ident, (id(one), 0))[0] != id(one) for ident, one in zip(lot.idents, lot.tensors, strict=True)
        )

    def _merge(self) -> None:
        """Keep what is known of the last step by the numbers of the variables."""
        last, self._last = self._last, None
        if last is not None:
            self._versions.update(zip(last.idents, zip(last.tensors, last.versions, strict=True), strict=True))
