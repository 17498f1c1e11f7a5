"""Files with a JSON value on every line, in the place of jsonlines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__version__ = "4.0.0"


class Error(Exception):
    """An error of this package."""


class InvalidLineError(Error, ValueError):
    """A line that holds no JSON."""


class Reader:
    """Reads values.

    Args:
        fp: Lines. loads: Reads one.
    """

    def __init__(self, fp: Any, *, loads: Any = None, **_: Any) -> None:
        self._fp, self._loads, self._lines = fp, loads or json.loads, iter(fp)

    def read(self, *, type: Any = None, allow_none: bool = False, skip_empty: bool = False) -> Any:
        """Return the next value; EOFError at the end."""
        for line in self._lines:
            if skip_empty and not line.strip():
                continue
            try:
                return self._loads(line)
            except ValueError as error:
                raise InvalidLineError(f"invalid json: {error}") from error
        raise EOFError

    def iter(self, *, skip_invalid: bool = False, **kwargs: Any) -> Iterator[Any]:
        """Yield the values."""
        while True:
            try:
                yield self.read(**kwargs)
            except InvalidLineError:
                if not skip_invalid:
                    raise
            except EOFError:
                return

    def __iter__(self) -> Iterator[Any]:
        return self.iter()

    def close(self) -> None:
        """Close the file."""
        if hasattr(self._fp, "close"):
            self._fp.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Writer:
    """Writes values.

    Args:
        fp: The file. sort_keys: Whether keys are sorted. dumps: Writes a value.
    """

    def __init__(self, fp: Any, *, sort_keys: bool = False, dumps: Any = None, **_: Any) -> None:
        self._fp, self._dumps = fp, dumps or (lambda value: json.dumps(value, ensure_ascii=False, sort_keys=sort_keys))

    def write(self, obj: Any) -> int:
        """Write one value."""
        return int(self._fp.write(self._dumps(obj) + "\n") or 0)

    def write_all(self, iterable: Any) -> int:
        """Write values."""
        return sum(map(self.write, iterable))

    close, __enter__, __exit__ = Reader.close, Reader.__enter__, Reader.__exit__


def open(file: Any, mode: str = "r", **kwargs: Any) -> Any:
    """Return what reads or writes a file."""
    import builtins

    handle = builtins.open(file, mode + "t", encoding="utf-8-sig" if "r" in mode else "utf-8")  # noqa: SIM115 - the reader closes it
    return Reader(handle, **kwargs) if "r" in mode else Writer(handle, **kwargs)
