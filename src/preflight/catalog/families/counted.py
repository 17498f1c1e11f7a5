"""What every architecture's arithmetic shares: reading a configuration, counting layers, the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from preflight.errors import InputError
from preflight.vocabulary.model import ModelSpec


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """An architecture with its counts.

    Attributes:
        spec: The architecture, without counts.
        base: Parameters of the base model (what the library's ``...Model`` class holds).
        heads: For each head the parameters it adds to the base; negative where the class drops the pooler.
        default_head: The head meant when the configuration names no class.
        block: Parameters of the largest block.
        idle: Parameters of the base that one token does not pass through (experts not chosen).
    """

    spec: ModelSpec
    base: int
    heads: dict[str, int]
    default_head: str
    block: int
    idle: int = 0


Builder = Callable[["Config"], Counted]


class Config:
    """A ``config.json``: typed values, with the library's default where a key is absent."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Keep the values."""
        self.values = values

    def whole(self, key: str, default: int) -> int:
        """Return a positive or zero whole number; absent or null means ``default``."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"model configuration: {key} is not a whole number: {value!r}")
        return value

    def count(self, key: str, default: int) -> int:
        """Return a whole number of at least 1 (a width, a number of heads)."""
        value = self.whole(key, default)
        if value < 1:
            raise InputError(f"model configuration: {key} must be at least 1, it is {value}")
        return value

    def maybe(self, key: str, default: int | None = None) -> int | None:
        """Return a whole number or None; only an absent key means ``default``."""
        if key not in self.values:
            return default
        return None if self.values[key] is None else self.whole(key, 0)

    def flag(self, key: str, default: bool) -> bool:
        """Return a truth value."""
        value = self.values.get(key)
        return default if value is None else bool(value)

    def word(self, key: str, default: str) -> str:
        """Return a word."""
        value = self.values.get(key)
        return value if isinstance(value, str) else default

    def ratio(self, key: str, default: float) -> float:
        """Return a number."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"model configuration: {key} is not a number: {value!r}")
        return float(value)

    def inner(self, key: str) -> Config:
        """Return the configuration nested under ``key`` (an empty one when absent)."""
        value = self.values.get(key)
        return Config(value if isinstance(value, Mapping) else {})

    def side(self, key: str, default: int) -> tuple[int, int]:
        """Return height and width of something that may be given as one number."""
        value = self.values.get(key)
        if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(part, int) for part in value):
            return int(value[0]), int(value[1])
        edge = self.count(key, default)
        return edge, edge

    def labels(self, default: int = 2) -> int:
        """Return the number of classes: ``id2label`` counts where it is present, else ``num_labels``."""
        table = self.values.get("id2label")
        return len(table) if isinstance(table, Mapping) and table else self.whole("num_labels", default)


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    """Return the parameters of a matrix of ``inputs`` by ``outputs`` and its bias."""
    return inputs * outputs + (outputs if bias else 0)


def split(width: int, heads: int, what: str) -> int:
    """Return the width of one head; a width that the heads do not divide is an error."""
    if width % heads:
        raise InputError(f"model configuration: {what} {width} is not a multiple of the {heads} attention heads")
    return width // heads
