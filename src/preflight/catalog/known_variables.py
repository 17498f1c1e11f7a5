"""The variables of the environment that libraries read: one file per library, ``variables/LIBRARY.toml``."""

from __future__ import annotations

import os
from functools import cache

import msgspec

from preflight.catalog import files

KIND = "variables"


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """What a library reads.

    Attributes:
        library: Its name.
        version: Where the names were read.
        sources: The same, as one finds it.
        prefixes: What its variables begin with.
        shared: Prefixes under which others have variables too: there, only what is close to a known name is told.
        plugins: Prefixes of parts that are loaded beside it and are not listed.
        names: The variables.
        instead: What to do instead of names that people set and nobody reads.
    """

    library: str
    version: str
    sources: tuple[str, ...]
    prefixes: tuple[str, ...]
    names: tuple[str, ...]
    shared: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    instead: dict[str, str] = {}


class UnknownVariable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that is set and that the library of its prefix does not read."""

    name: str
    library: str
    version: str
    nearest: str | None = None
    instead: str | None = None


@cache
def libraries() -> tuple[Library, ...]:
    """Return what is known of each library."""
    found = []
    for name in files.names(KIND):
        path = files.find(KIND, name) or os.path.join(files.SHIPPED, KIND, name)
        found.append(files.convert(files.parse(path), Library, path))
    return tuple(found)


def unknown(variable: str) -> UnknownVariable | None:
    """Return what is wrong with a variable's name, or None where it is known or nobody's who is listed here."""
    for library in libraries():
        if not variable.startswith(library.prefixes) or variable.startswith(library.plugins):
            continue
        if variable in library.names:
            return None
        near = _near(variable, library.names)
        instead = library.instead.get(variable)
        if near is None and instead is None and _is_shared(variable, library):
            return None
        return UnknownVariable(
            name=variable, library=library.library, version=library.version, nearest=near, instead=instead
        )
    return None


def _is_shared(variable: str, library: Library) -> bool:
    """Return whether others may have a variable of this name: no prefix of the library's own is longer than a shared one."""
    longest = max((prefix for prefix in library.prefixes if variable.startswith(prefix)), key=len)
    return longest in library.shared


def _near(variable: str, names: tuple[str, ...]) -> str | None:
    """Return the known name that a slip of the pen makes of it; a name may also lie under another prefix."""
    import difflib

    close = difflib.get_close_matches(variable, names, n=1, cutoff=0.86)
    return close[0] if close else None
