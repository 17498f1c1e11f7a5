"""A package that is not installed and has no stand-in: it does nothing for as long as nothing hangs on what it gives.

Every name of it, every call and every part of what a call returns is a ``NotInstalled``, which knows how it was reached.
A decorator gives back what it decorates, a context manager does nothing, a class can be subclassed. Where a number, a
length, an item in turn, a comparison, a text that is not just shown, or the opinion of ``isinstance`` is asked for, and
where it is handed a tensor, a module, an optimizer or a model's parameters, the run ends with the package that is missing.
"""

from __future__ import annotations

import abc
import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType, UnionType
from typing import Any, NoReturn

from preflight.dryrun.virtual.absent.wanting import STATE, asked_by_torch, heavy, line, needed, only_shown

_ERROR = re.compile(r"(?:Error|Exception|Warning|Interrupt|Timeout|Exit|NotFound)$")
_SCHEDULES = re.compile(r"sched|warmup|LR$|_lr", re.IGNORECASE)


class NotInstalled:
    """What a package that is not installed would have given.

    Args:
        path: How it was reached: package and names.
        born: The line that made it.
        made: Whether a call of something made it, and not only a name.
    """

    def __init__(self, path: str = "", born: str = "", made: bool = False) -> None:
        self.__dict__.update(_path=path, _born=born, _made=made)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _named(f"{self._path}.{name}", name, self._born)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        self.__dict__.pop(name, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Give back what is decorated, or something else that is not installed."""
        return _called(self._path, args, kwargs)

    def __enter__(self) -> Any:
        return NotInstalled(self._path, self._born, True)

    def __exit__(self, *error: object) -> None:
        """Leave; an error is not held back."""

    async def __aenter__(self) -> Any:
        """Enter."""
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        """Leave; an error is not held back."""

    def __getitem__(self, key: Any) -> Any:
        return NotInstalled(f"{self._path}[{key!r}]"[:80], self._born, self._made)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Take the item."""

    def __delitem__(self, key: Any) -> None:
        """Drop the item."""

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Return the class that a subclass of it has as its base."""
        known = self.__dict__.get("_class")
        if known is None:
            known = self.__dict__["_class"] = Kind("Extended", (Extended,), {"_path": self._path})
        return (known,)

    def __instancecheck__(self, value: Any) -> bool:
        """Nothing is an instance of its classes but what the person's own subclasses make."""
        if type(value) is NotInstalled:
            needed(value._path, value._born, "for isinstance()")
        known = self.__dict__.get("_class")
        return known is not None and type.__instancecheck__(known, value)

    def __subclasscheck__(self, value: type) -> bool:
        """Nothing is derived from its classes but the person's own subclasses."""
        known = self.__dict__.get("_class")
        return known is not None and type.__subclasscheck__(known, value)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Its class; who asks in order to decide something is told that it is not installed."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith("<frozen") and frame.f_back is not None:
            frame = frame.f_back
        if STATE.owns(frame.f_code.co_filename):
            needed(self._path, self._born, "for isinstance()")
        kept = asked_by_torch(frame)
        if kept is False:
            needed(self._path, self._born, "as an argument of torch")
        if kept and self._made:
            needed(self._path, self._born, "as a part of a module")
        return NotInstalled

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Take no part in what torch does."""
        found = inside([*args, *(kwargs or {}).values()])
        name = getattr(func, "__name__", "a function")
        needed(found._path if found is not None else "a package", found._born if found else "", f"by torch.{name}()")

    def __or__(self, other: Any) -> Any:
        """Be a part of a type: ``Config | None``."""
        if other is None or isinstance(other, (type, UnionType)) or type(other) is NotInstalled:
            return self
        needed(self._path, self._born, "for arithmetic")

    __ror__ = __or__

    def __str__(self) -> str:
        if not only_shown():
            needed(self._path, self._born, "as text")
        return repr(self)

    def __format__(self, spec: str) -> str:
        """Show what it is, where it is only shown."""
        return str(self)

    def __repr__(self) -> str:
        return f"<{self._path}: not installed>"

    def __add__(self, other: Any) -> Any:
        """Put texts together, where they are only shown."""
        if isinstance(other, str) and only_shown():
            return repr(self) + other
        needed(self._path, self._born, "for arithmetic")

    def __radd__(self, other: Any) -> Any:
        """Put texts together, where they are only shown."""
        if isinstance(other, str) and only_shown():
            return other + repr(self)
        needed(self._path, self._born, "for arithmetic")

    def __deepcopy__(self, memo: Any) -> Any:
        """Stay itself."""
        return self

    __hash__ = object.__hash__


def _needing(use: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any) -> NoReturn:
        needed(self._path, self._born, use)

    return refuse


_USES = {
    "for a decision": "bool",
    "as a number": "int float index complex round trunc floor ceil",
    "for its length": "len contains reversed",
    "item by item": "iter next aiter anext await",
    "for a comparison": "eq ne lt le gt ge",
    "for arithmetic": "sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul neg pos abs "
    "invert and rand xor rxor lshift rlshift rshift rrshift divmod rdivmod",
    "as an array": "array",
    "as bytes": "bytes",
    "as a path": "fspath",
}
for _use, _names in _USES.items():
    for _name in _names.split():
        setattr(NotInstalled, f"__{_name}__", _needing(_use))


class Kind(abc.ABCMeta):
    """Gives classes that the person derives the names of the class that is not installed."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _named(f"{cls._path}.{name}", name, "")


class Extended(metaclass=Kind):
    """What the person's own classes are derived from, in the place of a class that is not installed."""

    _path, _born = "", ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and issubclass(cls, torch.nn.Module):
            needed(cls._path, "", "as the class that a module is derived from")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind = heavy([*args, *kwargs.values()])
        if kind is not None:
            needed(self._path, "", f"for what it does with {kind}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _named(f"{self._path}().{name}", name, "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Give back what is decorated, or something that is not installed."""
        return _called(f"{self._path}()", args, kwargs)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave; an error is not held back."""


for _use in ("as a number", "for its length", "item by item", "for arithmetic", "as an array", "as a path"):
    for _name in _USES[_use].split():
        # Length, order and items are what the person's own class says, where it says something.
        if _name not in ("next", "contains", "await", "anext", "aiter", "array"):
            setattr(Extended, f"__{_name}__", _needing(_use))


def _named(path: str, name: str, born: str) -> Any:
    """Return what a name stands for: an exception that nobody raises, or something that is not installed."""
    if _ERROR.search(name) and name[:1].isupper():
        return type(name, (Exception,), {})
    return NotInstalled(path, born)


def _called(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kind = heavy([*args, *kwargs.values()])
    if kind is not None and not (kind == "an optimizer" and _SCHEDULES.search(path)):
        needed(f"{path}()", "", f"for what it does with {kind}")
    for given in (*args, *kwargs.values()):
        if isinstance(given, FunctionType) and STATE.owns(given.__code__.co_filename):
            STATE.handed.setdefault(given.__qualname__, f"{path}()")
    alone = len(args) == 1 and not kwargs and type(args[0]) is not NotInstalled
    if alone and (callable(args[0]) or isinstance(args[0], (staticmethod, classmethod, property))):
        return args[0]
    return NotInstalled(path if path.endswith("()") else f"{path}()", line(), True)


def inside(values: Any, depth: int = 0) -> NotInstalled | None:
    """Return the first of some values that is not installed."""
    for value in values:
        if type(value) is NotInstalled:
            return value
        inner = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
        found = inside(inner, depth + 1) if inner and depth < 2 else None
        if found is not None:
            return found
    return None


def compiled(name: str, *_: Any, **__: Any) -> NotInstalled:
    """Stand for an extension that a script compiles as it starts: inert, as a package that is not installed."""
    STATE.compiled.add(name)
    STATE.assume(f"{name} was not compiled: what it returns is not used by the training as far as this run went")
    return NotInstalled(name, line(), True)


class Package(ModuleType):
    """A module that has every name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        made = _named(f"{self.__name__}.{name}", name, line())
        setattr(self, name, made)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Be called, as the module of a submodule and a function may share a name."""
        return _called(self.__name__, args, kwargs)


class Loader(importlib.abc.Loader):
    """Loads packages that are not installed."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a module that has every name."""
        return Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""
