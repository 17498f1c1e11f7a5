"""Key-value stores, in the place of lmdb: what the script itself writes can be read, a store that is missing is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

__version__ = "1.4.1"


class Error(Exception):
    """An error of this package."""


_KEPT: dict[str, dict[bytes, bytes]] = {}


class Transaction:
    """Reads and writes the keys of a store."""

    def __init__(self, kept: dict[bytes, bytes]) -> None:
        self.kept = kept

    def get(self, key: bytes, default: Any = None, db: Any = None) -> Any:
        """Return the value of a key."""
        return self.kept.get(bytes(key), default)

    def put(self, key: bytes, value: bytes, **_: Any) -> bool:
        """Keep a value."""
        self.kept[bytes(key)] = bytes(value)
        return True

    def delete(self, key: bytes, **_: Any) -> bool:
        """Drop a key."""
        return self.kept.pop(bytes(key), None) is not None

    def stat(self, db: Any = None) -> dict[str, int]:
        """Return the number of entries."""
        return {"entries": len(self.kept)}

    def cursor(self, db: Any = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in the order of the keys."""
        return iter(sorted(self.kept.items()))

    def commit(self) -> None:
        """Keep what was written."""

    abort = commit

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave."""


class Environment:
    """A store in memory.

    Args:
        path: Where it would lie. readonly: Whether it has to be there. create: Whether it may be made.
    """

    def __init__(self, path: Any, readonly: bool = False, create: bool = True, **_: Any) -> None:
        name = os.fspath(path)
        data = os.path.join(name, "data.mdb") if os.path.isdir(name) else name
        if os.path.isfile(data):
            raise ModuleNotFoundError(f"No module named 'lmdb': it is needed to read {name}", name="lmdb")
        if name not in _KEPT and (readonly or not create):
            raise FileNotFoundError(2, "No such file or directory", name)
        self.kept = _KEPT.setdefault(name, {})

    def begin(self, *args: Any, **_: Any) -> Transaction:
        """Return a transaction."""
        return Transaction(self.kept)

    def stat(self) -> dict[str, int]:
        """Return the number of entries."""
        return {"entries": len(self.kept)}

    def open_db(self, *args: Any, **_: Any) -> None:
        """Take one database for all."""

    def sync(self, *args: Any) -> None:
        """Nothing has to be written."""

    close = sync


open = Environment
