"""YAML files, in the place of ruamel.yaml under its name in Anaconda; PyYAML reads and writes them."""

from __future__ import annotations

from typing import Any

import yaml as _plain
from yaml import *  # noqa: F403

__version__ = "0.17.21"


class RoundTripLoader(_plain.FullLoader):
    """A loader; comments are not kept."""


class RoundTripDumper(_plain.Dumper):
    """A dumper."""


class YAML:
    """Reads and writes YAML.

    Args:
        typ: Kind of the values. pure: Whether it is all Python.
    """

    def __init__(self, *, typ: Any = None, pure: bool = False, **_: Any) -> None:
        self.safe = typ == "safe"

    def load(self, stream: Any) -> Any:
        """Return the value of a file or text."""
        if hasattr(stream, "open"):
            with stream.open(encoding="utf-8") as file:
                return self.load(file)
        return _plain.load(stream, Loader=_plain.SafeLoader if self.safe else _plain.FullLoader)

    def dump(self, data: Any, stream: Any = None, **_: Any) -> Any:
        """Write a value."""
        if hasattr(stream, "open"):
            with stream.open("w", encoding="utf-8") as file:
                return self.dump(data, file)
        return _plain.dump(data, stream, sort_keys=False)


def round_trip_load(stream: Any, **_: Any) -> Any:
    """Return the value of a file or text."""
    return YAML().load(stream)


def round_trip_dump(data: Any, stream: Any = None, **_: Any) -> Any:
    """Write a value."""
    return YAML().dump(data, stream)


def load(stream: Any, Loader: Any = _plain.FullLoader, **_: Any) -> Any:  # type: ignore[no-redef]
    """Return the value of a file or text."""
    return _plain.load(stream, Loader=Loader)
