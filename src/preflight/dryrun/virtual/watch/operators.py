"""Watches operators: which came before which, and whatever a file beside this one asks to be told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.watch.observations import Observations

Fake = private.fake_class()
Hook = Callable[[str, Any, Any, Any], None]
"""Is given the operator's name, its positional and named arguments, and its result."""

_PATH, _PLACES = "_made_by", "_made_at"
_LENGTH = 6
# What does not change the numbers, or only which of them are there, is left out of a path.
_TRANSPARENT = frozenset(
    "view _unsafe_view reshape t transpose permute detach alias clone _to_copy contiguous unsqueeze squeeze slice select "
    "lift_fresh unbind split chunk as_strided narrow flatten view_as _reshape_alias copy".split()
)
_FORWARD = frozenset(("init", "forward", "eval"))


def path_of(tensor: Any) -> tuple[str, ...]:
    """Return the operators that a tensor comes from, the last one first, along the first tensor argument of each."""
    found = getattr(tensor, _PATH, ())
    return found if isinstance(found, tuple) else ()


def places_of(tensor: Any) -> tuple[str, ...]:
    """Return the ``file:line`` of each operator in ``path_of``."""
    found = getattr(tensor, _PLACES, ())
    return found if isinstance(found, tuple) else ()


class Operators:
    """Tells those who asked of the operators of forward passes.

    Args:
        seen: Takes the notes.
    """

    def __init__(self, seen: Observations) -> None:
        self.seen = seen
        self._hooks: dict[str, list[Hook]] = {}

    def tell(self, names: str, hook: Hook) -> None:
        """Have a function called after each of the operators named (blank between them; no namespace, no overload)."""
        for name in names.split():
            self._hooks.setdefault(name, []).append(hook)

    def ran(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """An operator has run on the virtual GPU."""
        if self.seen.progress.phase not in _FORWARD:
            return
        for hook in self._hooks.get(name, ()):
            hook(name, args, kwargs, result)
        first = args[0] if args else None
        if isinstance(first, (list, tuple)):
            first = first[0] if first else None
        path, places = path_of(first), places_of(first)
        plain = name[:-1] if name.endswith("_") else name
        if plain not in _TRANSPARENT:
            path = (plain, *path[: _LENGTH - 1])
            places = (self.seen.progress.line(), *places[: _LENGTH - 1])
        for tensor in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(tensor, Fake):
                tensor.__dict__[_PATH], tensor.__dict__[_PLACES] = path, places
