"""Command lines from the types of a dataclass or a function, in the place of tyro."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import sys
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from . import conf

__version__ = "0.9.0"
MISSING = dataclasses.MISSING
__all__ = ["MISSING", "cli", "conf"]

_SEVERAL = (list, tuple, set, collections.abc.Sequence)
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


def cli(
    f: Any, *, args: Sequence[str] | None = None, default: Any = MISSING, return_unknown_args: bool = False, **_: Any
) -> Any:
    """Call a function or class with what a command line says, and its own defaults for the rest."""
    given, rest = _words(list(sys.argv[1:] if args is None else args), set(_flags(f)))
    made = _made(_bare(f), "", given, default)
    unknown = [*rest, *(word for name, values in given.items() for word in (f"--{name}", *values))]
    if unknown and not return_unknown_args:
        _leave(f"unrecognized options: {' '.join(unknown)}")
    return (made, unknown) if return_unknown_args else made


def _leave(why: str) -> typing.NoReturn:
    print(f"error: {why}", file=sys.stderr)
    raise SystemExit(2)


def _words(words: list[str], flags: set[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the values of each option by its name, and words that belong to none."""
    given: dict[str, list[str]] = {}
    rest: list[str] = []
    name = None
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            given[name] = [value] if equals else []
            name = None if equals or name in flags else name
        elif name is not None:
            given[name].append(word)
        else:
            rest.append(word)
    return given, rest


def _flags(f: Any, prefix: str = "") -> collections.abc.Iterator[str]:
    """Yield the options that stand without a value, both ways."""
    for name, (kind, _) in _parameters(_bare(f)).items():
        if dataclasses.is_dataclass(_bare(kind)):
            yield from _flags(_bare(kind), f"{prefix}{name}.")
        elif _bare(kind) is bool:
            yield f"{prefix}{name}"
            yield f"{prefix}no_{name}"


def _parameters(f: Any) -> dict[str, tuple[Any, Any]]:
    """Return the type and the default of each parameter."""
    try:
        hints = typing.get_type_hints(f if not inspect.isclass(f) or dataclasses.is_dataclass(f) else f.__init__)
    except Exception:
        hints = getattr(f, "__annotations__", {})
    if dataclasses.is_dataclass(f):
        return {
            field.name: (
                hints.get(field.name, str),
                field.default_factory() if field.default_factory is not MISSING else field.default,
            )
            for field in dataclasses.fields(f)
            if field.init
        }
    return {
        name: (hints.get(name, str), MISSING if one.default is one.empty else one.default)
        for name, one in inspect.signature(f).parameters.items()
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }


def _made(f: Callable[..., Any], prefix: str, given: dict[str, list[str]], default: Any) -> Any:
    """Call something with what is said for its parameters, which is taken away from what is given."""
    values: dict[str, Any] = {}
    for name, (kind, own) in _parameters(f).items():
        preset = getattr(default, name, own) if default is not MISSING else own
        path, kind = f"{prefix}{name}", _bare(kind)
        if dataclasses.is_dataclass(kind):
            values[name] = _made(typing.cast("Any", kind), f"{path}.", given, preset)
        elif path in given:
            values[name] = _valued(kind, given.pop(path), path)
        elif kind is bool and f"{prefix}no_{name}" in given:
            del given[f"{prefix}no_{name}"]
            values[name] = False
        elif preset is not MISSING:
            values[name] = preset
        else:
            _leave(f"--{path} is required")
    return f(**values)


def _bare(kind: Any) -> Any:
    """Return a type without what is noted beside it."""
    while hasattr(kind, "__metadata__"):
        kind = kind.__origin__
    return kind


def _valued(kind: Any, words: list[str], path: str) -> Any:
    """Return what words mean as a value of a type."""
    kind = _bare(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    try:
        if origin in _UNIONS:
            return _first(inner, words, path)
        if (origin or kind) in _SEVERAL:
            each = inner if inner and Ellipsis not in inner and origin is tuple else (inner or (str,))[:1] * len(words)
            found = [_valued(one, [word], path) for one, word in zip(each, words, strict=True)]
            return found if origin in (list, collections.abc.Sequence) or kind is list else (origin or kind)(found)
        if kind is bool:
            return not words or {"true": True, "false": False, "1": True, "0": False}[words[0].lower()]
        (word,) = words
        if origin is typing.Literal:
            return next(one for one in inner if str(one) == word)
        if kind is type(None):
            return {"none": None}[word.lower()]
        if inspect.isclass(kind) and issubclass(kind, enum.Enum):
            return kind[word]
        return word if kind in (Any, inspect.Parameter.empty) else kind(word)
    except (KeyError, StopIteration, TypeError, ValueError):
        _leave(f"--{path}: {' '.join(words)!r} is no {getattr(kind, '__name__', kind)}")


def _first(kinds: Sequence[Any], words: list[str], path: str) -> Any:
    """Return what words mean as the first type that they fit."""
    from contextlib import redirect_stderr
    from io import StringIO

    for kind in sorted(kinds, key=lambda one: one is str):
        try:
            with redirect_stderr(StringIO()):
                return _valued(kind, words, path)
        except SystemExit:
            continue
    raise ValueError(words)
