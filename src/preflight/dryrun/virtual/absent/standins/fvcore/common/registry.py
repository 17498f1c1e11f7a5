"""Functions and classes by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Registry:
    """Functions and classes by name.

    Args:
        name: What they are.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept: dict[str, Any] = {}

    def register(self, obj: Any = None) -> Any:
        """Keep a function or class; a decorator where none is given."""
        if obj is None:
            return self.register
        self._kept[obj.__name__] = obj
        return obj

    def get(self, name: str) -> Any:
        """Return a function or class."""
        if name not in self._kept:
            raise KeyError(f"No object named '{name}' found in '{self._name}' registry!")
        return self._kept[name]

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def __iter__(self) -> Iterator[Any]:
        return iter(self._kept.items())
