"""Writes to parameters between two steps of their optimizer, as torch counts them; what is written to ``.data`` is not."""

from __future__ import annotations

from .roster import Held

_MOST_WRITTEN = 100


class Writes:
    """Remembers of each variable which tensor it was after the last step, and how often that had been written to."""

    def __init__(self) -> None:
        self._versions: dict[int, tuple[int, int]] = {}

    def stepped(self, held: Held) -> None:
        """Note the variables of an optimizer that has just stepped."""
        self._versions.update(_versions(held))

    def since(self, held: Held) -> list[int]:
        """Variables that were written to since the optimizer's last step, as torch counts it; ``.data`` is not counted."""
        known = self._versions
        if _versions(held).items() <= known.items():
            return []  # as after nearly every step
        return [
            variable.ident
            for variable, tensor in held
            if variable.kind == "parameter" and known.get(variable.ident, (None, 0))[0] == id(tensor)
            if known[variable.ident][1] != tensor._version
        ][:_MOST_WRITTEN]

    def replaced(self, held: Held) -> bool:
        """Whether tensors stand under names under which an optimizer has stepped others, as those of a new model do."""
        return any(self._versions.get(variable.ident, (id(one), 0))[0] != id(one) for variable, one in held)


def _versions(held: Held) -> dict[int, tuple[int, int]]:
    """By the number of each variable which tensor it is, and how often that was written to."""
    return {variable.ident: (id(tensor), tensor._version) for variable, tensor in held}
