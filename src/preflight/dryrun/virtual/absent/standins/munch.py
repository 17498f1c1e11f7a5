"""Dictionaries whose keys are attributes too, in the place of munch."""

from __future__ import annotations

from typing import Any

__version__ = "4.0.0"


class Munch(dict):  # type: ignore[type-arg]
    """A dictionary whose keys are its attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None

    def toDict(self) -> Any:
        """Return plain dictionaries."""
        return unmunchify(self)

    @classmethod
    def fromDict(cls, d: Any) -> Any:
        """Return the same with attributes."""
        return munchify(d, cls)

    def copy(self) -> Any:
        """Return a copy."""
        return type(self)(self)


class DefaultMunch(Munch):
    """A munch with a value for keys that it lacks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "__default__", args[0] if args else None)
        super().__init__(*args[1:], **kwargs)

    def __missing__(self, key: Any) -> Any:
        return self.__default__


def munchify(x: Any, factory: Any = Munch) -> Any:
    """Return dictionaries, also those in lists, with attributes."""
    if isinstance(x, dict):
        return factory({key: munchify(value, factory) for key, value in x.items()})
    return type(x)(munchify(value, factory) for value in x) if type(x) in (list, tuple) else x


def unmunchify(x: Any) -> Any:
    """Return plain dictionaries."""
    if isinstance(x, dict):
        return {key: unmunchify(value) for key, value in x.items()}
    return type(x)(map(unmunchify, x)) if type(x) in (list, tuple) else x
