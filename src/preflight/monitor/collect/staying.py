"""What a program changed in a data set after the workers of its loader were started, who stay and hold copies of it.

Looked at are plain values of the objects that the workers' code reads them from, by the code of their classes; nothing of
the program's is run.
"""

from __future__ import annotations

import dis
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

_READING = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
_PLAIN = (int, float, bool, str, type(None))
_DEEPEST = 4
_MOST_HELD = 32
_MOST_CODES = 64
_GETS = ("LOAD_FAST", "LOAD_DEREF")  # how code gets at what it calls ``self``
_BETWEEN = ("COPY", "DUP_TOP", "CACHE", "EXTENDED_ARG")  # what may stand between that and one of its attributes
_TORCHS = "torch.nn.modules.module"  # what calls a module's ``forward``


class Staying:
    """Keeps, of each loader whose workers stay, the plain values that they read."""

    def __init__(self) -> None:
        self._read: weakref.WeakKeyDictionary[type, frozenset[str]] = weakref.WeakKeyDictionary()
        self._kept: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = weakref.WeakKeyDictionary()

    def begins(self, loader: Any) -> dict[str, Any]:
        """A loop over a loader begins: what changed since its workers were started; nothing where none of them stay."""
        if not getattr(loader, "persistent_workers", False) or not getattr(loader, "num_workers", 0):
            return {}
        now = self._values(loader)
        if getattr(loader, "_iterator", None) is None or loader not in self._kept:
            self._kept[loader] = now
            return {}
        before = self._kept[loader]
        if not before:
            return {}
        changed = [
            (of, word) for (of, word), value in now.items() if (of, word) in before and _other(before, now, of, word)
        ]
        return {"unheard": [f"{of}.{word}" for of, word in changed]}

    def _values(self, loader: Any) -> dict[tuple[str, str], Any]:
        """The plain values that workers read, by the class of what has them and their name."""
        found: dict[tuple[str, str], Any] = {}
        ambiguous: set[tuple[str, str]] = set()
        for held in _held(loader):
            kind = type(held)
            if kind not in self._read:
                self._read[kind] = _names_read(kind)
            for word in self._read[kind] - _modes(held):
                value = vars(held).get(word, vars)
                if type(value) in _PLAIN:
                    key = (kind.__name__, word)
                    ambiguous.update({key} if key in found else ())
                    found[key] = value
        return {key: value for key, value in found.items() if key not in ambiguous}


def _modes(held: Any) -> frozenset[str]:
    """What is switched for the whole of a model that a data set happens to hold."""
    return frozenset({"training"}) if isinstance(held, sys.modules["torch"].nn.Module) else frozenset()


def _other(before: dict[tuple[str, str], Any], now: dict[tuple[str, str], Any], of: str, word: str) -> bool:
    old, new = before[of, word], now[of, word]
    return type(old) is not type(new) or (old != new and new == new)


def _held(loader: Any) -> Iterator[Any]:
    """What the workers have copies of: the data set, what it is made of or wrapped in, its transforms, what collates."""
    data = sys.modules["torch.utils.data"]
    waiting = [(getattr(loader, "dataset", None), 0), (getattr(loader, "collate_fn", None), 0)]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_HELD:
        held, depth = waiting.pop()
        attributes = getattr(held, "__dict__", None)
        if id(held) in seen or not isinstance(attributes, dict) or isinstance(held, (type, types.FunctionType)):
            continue
        seen.add(id(held))
        yield held
        if depth < _DEEPEST:
            values = list(attributes.values())[:_MOST_HELD]
            values += [one for value in values if type(value) in (list, tuple) for one in value[:_MOST_HELD]]
            waiting += [(one, depth + 1) for one in values if isinstance(one, data.Dataset) or _transforms(one)]


def _transforms(value: Any) -> bool:
    """Whether something is called by a method that is written in Python, as a transform is."""
    return isinstance(getattr(type(value), "__call__", None), types.FunctionType)  # noqa: B004


def _names_read(kind: type) -> frozenset[str]:
    """The attributes of its own that an object of a class reads where it gives samples, and does not set there itself."""
    read: set[str] = set()
    written: set[str] = set()
    waiting = [function.__code__ for word in _READING if (function := _function(kind, word)) is not None]
    known: set[types.CodeType] = set()
    while waiting and len(known) < _MOST_CODES:
        code = waiting.pop()
        if code in known:
            continue
        known.add(code)
        for word, stored in _own(code):
            (written if stored else read).add(word)
            function = _function(kind, word)
            if function is not None:
                waiting.append(function.__code__)
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return frozenset(read - written)


def _function(kind: type, word: str) -> types.FunctionType | None:
    """The function of a class's method or property; none of what torch calls modules by."""
    for base in kind.__mro__:
        found = base.__dict__.get(word)
        found = found.fget if isinstance(found, property) else found
        if found is not None:
            return found if isinstance(found, types.FunctionType) and found.__module__ != _TORCHS else None
    return None


def _own(code: types.CodeType) -> Iterator[tuple[str, bool]]:
    """Attributes of ``self`` that a function reads, and those that it sets, of whatever it may be."""
    words = (*code.co_varnames[:1], *code.co_freevars)
    before: Any = None
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
            yield str(step.argval), True
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and before is not None:
            named = before.argval[-1] if isinstance(before.argval, tuple) else before.argval
            if any(word in before.opname for word in _GETS) and named in words:
                yield str(step.argval), False
        if step.opname not in _BETWEEN:
            before = step
