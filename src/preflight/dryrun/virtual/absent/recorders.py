"""What takes every call and does nothing, in the place of packages that hold no tensors."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_PLAIN = (bool, int, float, str, tuple, list, type(None))


class Recorder:
    """Takes every call, attribute and item, and does nothing.

    Plain values that it is made with under a name stay readable under it: settings that a script reads back.

    Args:
        name: How it was reached.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__["_said"] = str(args[0]) if args and isinstance(args[0], str) else type(self).__name__
        self.__dict__.update((name, value) for name, value in kwargs.items() if isinstance(value, _PLAIN))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Recorder(f"{self._said}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Give back what is decorated, or another recorder."""
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Recorder):
            return args[0]
        return Recorder(self._said, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave; an error is not held back."""

    def __getitem__(self, key: Any) -> Any:
        return Recorder(self._said)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Take the item."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __float__(self) -> float:
        return 0.0

    def __int__(self) -> int:
        return 0

    def __format__(self, spec: str) -> str:
        """Write a number where one is asked for."""
        try:
            return format(0.0, spec) if spec else str(self)
        except ValueError:
            return format(str(self), spec)

    def __add__(self, other: Any) -> Any:
        """Give back what it is added to, as a measure of nothing."""
        return other

    __radd__ = __sub__ = __rsub__ = __add__

    def __mul__(self, other: Any) -> float:
        return 0.0

    __rmul__ = __truediv__ = __mul__

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __fspath__(self) -> str:
        return str(self._said)

    def __str__(self) -> str:
        return str(self._said)


class _Kind(type):
    """Gives a class every name: constants and constructors."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Recorder(f"{cls.__name__}.{name}")


class Inert(ModuleType):
    """A module that has every name: one with a capital is a class, any other a recorder."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "0.0.0"
        if name.startswith("__"):
            raise AttributeError(name)
        made: Any = _Kind(name, (Recorder,), {}) if name[:1].isupper() else Recorder(f"{self.__name__}.{name}")
        setattr(self, name, made)
        return made


class InertLoader(importlib.abc.Loader):
    """Loads recorders."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a recorder in the form of a module."""
        return Inert(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""
