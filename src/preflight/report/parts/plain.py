"""Values as plain JSON that every reader accepts: finite numbers, 64-bit integers, valid Unicode, string keys."""

from __future__ import annotations

from typing import Any

import msgspec

_LARGEST = 2**63


def plain(value: Any) -> Any:
    """Return structs and containers as dictionaries and lists that any JSON reader accepts.

    A number that is not finite, or an integer beyond 64 bits, becomes ``None``; in an object, ``reason`` then says so.
    Keys of dictionaries are sorted; fields of structs keep their order. So the same report gives the same bytes.
    """
    return _walk(msgspec.to_builtins(value, order="deterministic", str_keys=True))


def encode(value: Any) -> str:
    """Return plain JSON as indented text that ends in a line end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def unreadable(value: Any) -> str | None:
    """Return why a number cannot stand in JSON, or None when it can."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "not a number" if value != value else "not finite"
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return "an integer beyond 64 bits"
    return None


def _walk(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return _object(value)
    if isinstance(value, (list, tuple)):
        return [_walk(item) for item in value]
    return None if unreadable(value) else value


def _object(value: dict[Any, Any]) -> dict[str, Any]:
    walked = {_walk(str(key)): _walk(item) for key, item in value.items()}
    lost = {key: why for key, item in value.items() if (why := unreadable(item))}
    if lost and walked.get("reason") is None:
        walked["reason"] = "; ".join(f"{_walk(str(key))} is {why}" for key, why in lost.items())
    return walked
