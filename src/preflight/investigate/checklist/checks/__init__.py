"""Checks of this machine: each file has one function ``check``, whose keywords are the options of an item."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import msgspec

from preflight.errors import CatalogError, nearest
from preflight.listing import modules_beside
from preflight.vocabulary.checklist import Standing


class Seen(msgspec.Struct, frozen=True):
    """What a check saw."""

    standing: Standing
    text: str


def check_names() -> tuple[str, ...]:
    """The names of all checks: the files of this folder."""
    return tuple(sorted(name.replace("_", "-") for name in modules_beside(__file__)))


def check_of(name: str) -> Callable[..., Seen]:
    """Return a check.

    Raises:
        CatalogError: There is none of this name.
    """
    if name not in check_names():
        near = nearest(name, check_names())
        raise CatalogError(f"no check is called {name!r}", f"did you mean {near}?" if near else None)
    found: Callable[..., Seen] = import_module(f"{__name__}.{name.replace('-', '_')}").check
    return found


def printed(*words: str, seconds: float = 20.0) -> str | None:
    """Return what a program prints, or None where it is not there, fails or does not end."""
    import subprocess

    try:
        done = subprocess.run(
            words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


__all__ = ["Seen", "check_names", "check_of", "printed"]
