"""Dictionaries whose keys are attributes too, in the place of easydict."""

from __future__ import annotations

from typing import Any

__version__ = "1.13"


class EasyDict(dict):  # type: ignore[type-arg]
    """A dictionary with attributes; dictionaries in it become the same."""

    def __init__(self, d: Any = None, **kwargs: Any) -> None:
        super().__init__()
        for name, value in {**dict(d or {}), **kwargs}.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (list, tuple)):
            value = type(value)(type(self)(x) if isinstance(x, dict) else x for x in value)
        elif isinstance(value, dict) and not isinstance(value, EasyDict):
            value = type(self)(value)
        super().__setattr__(name, value)
        super().__setitem__(name, value)

    __setitem__ = __setattr__

    def update(self, e: Any = None, **f: Any) -> None:  # type: ignore[override]
        """Take the items of another dictionary."""
        for name, value in {**dict(e or {}), **f}.items():
            setattr(self, name, value)

    def pop(self, k: str, *args: Any) -> Any:
        """Remove a key and its attribute."""
        if hasattr(self, k):
            delattr(self, k)
        return super().pop(k, *args)
