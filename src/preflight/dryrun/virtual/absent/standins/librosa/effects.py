"""Changes of sounds."""

from __future__ import annotations

from typing import Any


def trim(y: Any, *_: Any, **__: Any) -> Any:
    """Return the sound as it is: of silence nothing would be left."""
    return y, (0, len(y))


def preemphasis(y: Any, *_: Any, **__: Any) -> Any:
    """Return as many samples."""
    return y
