"""Notes beside the types of a command line, which change how it looks and not what it says."""

from __future__ import annotations

from typing import Annotated, Any


class _Note:
    """A note: an object, and brackets that put it beside a type."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, kind: Any) -> Any:
        return Annotated[kind, self]

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __repr__(self) -> str:
        return f"tyro.conf.{self._name}"


def configure(*_: Any, **__: Any) -> Any:
    """Return a decorator that changes nothing."""
    return lambda f: f


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Note(name)
