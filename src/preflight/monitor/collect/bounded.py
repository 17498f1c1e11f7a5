"""How often each of a few places is looked at: what is seen there the first few times is what is seen there later."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any


class BoundedLooks:
    """Counts looks.

    Args:
        each: Looks at one place.
        places: Places that are looked at; later ones are not.
        counted: What the counts are kept in, where not a dictionary: one that does not keep the places alive.
    """

    __slots__ = ("_counted", "_each", "_places")

    def __init__(self, each: int, places: int, counted: MutableMapping[Any, int] | None = None) -> None:
        self._each = each
        self._places = places
        self._counted: MutableMapping[Any, int] = {} if counted is None else counted

    def left(self, place: Any) -> bool:
        """Return whether a place may be looked at once more."""
        looks = self._counted.get(place, 0)
        return looks < self._each if looks else len(self._counted) < self._places

    def take(self, place: Any) -> bool:
        """Count a look at a place, where it may be looked at once more; return whether it may."""
        if not self.left(place):
            return False
        self._counted[place] = self._counted.get(place, 0) + 1
        return True
