"""The one reader of catalog files: TOML, one file per thing, the file name is the key.

Names are listed without parsing, spellings are found in the raw text, and a file is parsed only when it is asked for:
``tomllib`` is slow beside everything else that a start-up does.
A file that does not say where its numbers were read is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from preflight.errors import CatalogError

T = TypeVar("T")
Folders = Sequence[str]

SHIPPED = os.path.dirname(os.path.abspath(__file__))
SUFFIX = ".toml"
ALIASES = "aliases"


@cache
def listing(folder: str) -> tuple[str, ...]:
    """Return the keys in one folder (``gpus`` of some catalog), sorted; a folder that is not there has none."""
    try:
        entries = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(entry[: -len(SUFFIX)] for entry in entries if entry.endswith(SUFFIX)))


def folders(kind: str, extra: Folders = ()) -> list[str]:
    """Return the folders that hold one kind, the user's first, so that a user's file wins over a shipped one.

    A user folder is laid out like the shipped catalog: ``<folder>/gpus/*.toml``, ``<folder>/links/*.toml`` and so on.

    Raises:
        CatalogError: A user folder is not there.
    """
    for folder in extra:
        if not os.path.isdir(folder):
            raise CatalogError(
                f"catalog folder '{folder}' is {'no folder' if os.path.exists(folder) else 'not there'}",
                hint="[tool.preflight] catalog names it",
            )
    return [os.path.join(folder, kind) for folder in extra] + [os.path.join(SHIPPED, kind)]


def names(kind: str, extra: Folders = ()) -> tuple[str, ...]:
    """Return the keys of one kind (``gpus``, ``links``, ``clouds`` ...), sorted, without opening a file."""
    found: set[str] = set()
    for folder in folders(kind, extra):
        found.update(listing(folder))
    return tuple(sorted(found))


def find(kind: str, name: str, extra: Folders = ()) -> str | None:
    """Return the path of the file that holds ``name``, or None. The name is a key, never a path."""
    for folder in folders(kind, extra):
        if name in listing(folder):
            return os.path.join(folder, name + SUFFIX)
    return None


def read_text(path: str) -> str:
    """Return the text of a catalog file.

    Raises:
        CatalogError: It cannot be read or is not UTF-8.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(f"{path}: cannot be read: {error}") from error


def _top_level(text: str, key: str) -> str | None:
    """Return the raw text behind a top-level ``key =`` (what stands before the first table), or None."""
    table = text.find("\n[")
    head = text if table < 0 else text[: table + 1]
    start = 0 if head.startswith(key) else head.find("\n" + key) + 1
    before, equals, behind = head[start:].partition("=")
    return behind if equals and before.strip() == key else None


def plain_list(text: str, key: str) -> tuple[str, ...]:
    """Return the strings of a top-level ``key = ["a", "b"]`` from raw TOML, without parsing the rest.

    Strings must be plain: no escape, no bracket.
    """
    behind = _top_level(text, key)
    if behind is None or not behind.lstrip().startswith("["):
        return ()
    return tuple(behind[: behind.find("]")].split('"')[1::2])


def plain_number(text: str, key: str) -> float | None:
    """Return the number of a top-level ``key = 80`` from raw TOML, without parsing the rest."""
    behind = _top_level(text, key)
    if behind is None:
        return None
    try:
        return float(behind.split("\n", 1)[0].split("#", 1)[0])
    except ValueError:
        return None


def aliases_of(path: str) -> tuple[str, ...]:
    """Return the other spellings that a file gives itself, without parsing it."""
    return plain_list(read_text(path), ALIASES)


def aliases(kind: str, extra: Folders = ()) -> Iterator[tuple[str, str]]:
    """Yield (spelling, key) for every alias of every file of a kind, in the order of the keys; a user's files first."""
    seen: set[str] = set()
    for folder in folders(kind, extra):
        for name in listing(folder):
            if name in seen:
                continue
            seen.add(name)
            for alias in aliases_of(os.path.join(folder, name + SUFFIX)):
                yield alias, name


def parse(path: str) -> dict[str, Any]:
    """Return the content of a catalog file.

    Raises:
        CatalogError: It is not TOML, or it does not say where its numbers were read.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        content = tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CatalogError(f"{path}: not TOML: {error}") from error
    sources = content.get("sources")
    if not isinstance(sources, list) or not sources or not all(isinstance(s, str) and s.strip() for s in sources):
        raise CatalogError(
            f"{path}: names no source",
            hint='say where each number was read: sources = ["..."], one string or more',
        )
    return content


def convert(content: dict[str, Any], into: type[T], path: str) -> T:
    """Return the content as a value of the given type, strictly: unknown keys and wrong types are errors.

    Raises:
        CatalogError: The content does not fit the type.
    """
    known: set[str] = set(getattr(into, "__struct_encode_fields__", ()))
    unknown = sorted(set(content) - known)
    if unknown:
        from preflight.errors import nearest

        close = nearest(unknown[0], sorted(known))
        raise CatalogError(f"{path}: unknown key '{unknown[0]}'", hint=f"did you mean '{close}'?" if close else None)
    try:
        return msgspec.convert(content, type=into, strict=True)
    except msgspec.ValidationError as error:
        raise CatalogError(f"{path}: {error}") from error
