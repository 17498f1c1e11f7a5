"""Decides where arithmetic tells whether a signature takes a line; a signature names the function in ``predicate``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from preflight.errors import CatalogError

Predicate = Callable[[Mapping[str, object], str], bool]


def named(name: str | None) -> Predicate | None:
    """Return the predicate of that name; None for None.

    Raises:
        CatalogError: There is none.
    """
    if name is None:
        return None
    found = globals().get(name)
    if name.startswith("_") or name in ("named", "annotations") or not callable(found):
        raise CatalogError(f"there is no predicate '{name}'", f"those of {__name__} can be named")
    predicate: Predicate = found
    return predicate


def nonzero(fields: Mapping[str, object], text: str) -> bool:
    """A counter counts only when it is not nought: every field that is a number is looked at."""
    numbers = [value for value in fields.values() if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return any(number != 0 for number in numbers)


def killed(fields: Mapping[str, object], text: str) -> bool:
    """The exit code is that of SIGKILL: -9, or 137 where a shell tells it."""
    return fields.get("code") in (-9, 137)


def failed(fields: Mapping[str, object], text: str) -> bool:
    """The exit code is neither nought nor that of a process that was asked to stop."""
    return fields.get("code") not in (None, 0, -15, 143)
