"""What a program was set to: its options as they came to be, defaults too, and the constants of its files.

A command line tells only what somebody typed. What an option is that nobody gave, what a configuration file said, and what
stands at the top of a script, decides over a training as much: with it a reader can tell a setting that was changed from a
number that slipped in.
Read are, where the training is called from, namespaces of ``argparse``, data classes, and whatever is held under a name by
which settings usually go; of these the plain values, without asking the objects anything. Words that may be secret are left out.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any

from .naming import user_frames
from .scope import attributes_of, is_a, variables

_NAMES = frozenset(
    "arg args argument arguments opt opts option options cfg conf config configuration configs flag flags hparams hp hps "
    "hyperparameters hyperparams hyper param params parameters setting settings train_config training_args train_args".split()
)
_SECRET = ("key", "token", "secret", "password", "passwd", "credential", "auth")
_MOST = 400
_MOST_WORD = 40
_MOST_LISTED = 8
_DEEP = 3
_LARGEST = 10**15


class Chosen:
    """Tells what the program was set to, once, and again where that is another at a later optimizer."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self._last: Any = None
        self._times = 0

    def tell(self, frame: FrameType | None) -> None:
        """Look at what is in sight of a frame, and write it down.

        Args:
            frame: Where the training is called from, or within that.
        """
        if self._times >= _DEEP:
            return
        self._times += 1
        found = seen(frame)
        if found != self._last and any(found):
            self._last = found
            recorder = self._recorder
            recorder.put("settings", (recorder.number(), recorder.iteration, *found))


def seen(frame: FrameType | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options in sight of a frame by their names, and the constants.

    Args:
        frame: Where the training is called from, or within that.
    """
    options: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    held: set[int] = set()
    files: set[int] = set()
    for here in user_frames(frame):
        own = variables(here)
        holders = [own, attributes_of(own.get("self"))]
        if id(here.f_globals) not in files:
            files.add(id(here.f_globals))
            holders.append(here.f_globals)
            _take_constants(here.f_globals, constants)
        for holder in holders:
            for name, value in list(holder.items()):
                inside = _inside(value, _named(name))
                if inside is not None and id(value) not in held:
                    held.add(id(value))
                    _take(inside, "", options, _DEEP)
        if here.f_code.co_name == "<module>":
            constants.update(_written(here.f_code))
    return options, constants


def _named(name: Any) -> bool:
    return isinstance(name, str) and name.strip("_").lower() in _NAMES


def _inside(value: Any, named: bool) -> dict[Any, Any] | None:
    """What something holds by name, where it is settings; None where it is none."""
    kind = type(value)
    if is_a(value, dict):
        return dict(dict.items(value)) if named else None
    if is_a(value, (ModuleType, type)):
        return dict(type.__getattribute__(value, "__dict__") if is_a(value, type) else vars(value)) if named else None
    argparse = sys.modules.get("argparse")
    parsed = argparse is not None and issubclass(kind, argparse.Namespace)
    if not (named or parsed or any("__dataclass_fields__" in vars(one) for one in kind.__mro__)):
        return None
    if kind.__module__.partition(".")[0] == "torch":
        return None  # what is called opt may be an optimizer
    held = attributes_of(value)
    if "_modules" in held:
        return None  # a model
    nodes = held.get("_content", held.get("_fields"))  # of OmegaConf and of ml_collections
    return nodes if is_a(nodes, dict) else held


def _take(inside: dict[Any, Any], before: str, found: dict[str, Any], deep: int) -> None:
    """Add the plain values to what was found, those of parts under the names of both."""
    for name, value in list(inside.items()):
        if len(found) >= _MOST:
            return
        if type(name) is not str or name.startswith("_"):
            continue
        if (node := attributes_of(value).get("_val", value)) is not value and _is_plain(node):
            value = node
        if _is_plain(value):
            if not any(word in name.lower() for word in _SECRET):
                found.setdefault(before + name, value)
        elif type(value) in (list, tuple) and len(value) <= _MOST_LISTED and deep:
            _take({str(place): one for place, one in enumerate(value)}, f"{before}{name}.", found, 0)
        elif deep > 1 and (below := _inside(value, is_a(value, dict))) is not None:
            _take(below, f"{before}{name}.", found, deep - 1)


def _take_constants(names: dict[str, Any], found: dict[str, Any]) -> None:
    for name, value in list(names.items()):
        if name.isupper() and not name.startswith("_") and len(found) < _MOST:
            _take({name: value}, "", found, 1)


def _written(code: CodeType) -> Iterator[tuple[str, Any]]:
    """The names that the text of a file gives a plain value, and none else, outside of its functions."""
    given: dict[str, list[Any]] = {}
    before: Any = None
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_NAME", "STORE_GLOBAL"):
            plain = before is not None and before.opname in ("LOAD_CONST", "LOAD_SMALL_INT")
            given.setdefault(str(step.argval), []).append(before.argval if plain else None)
        before = step
    for name, values in given.items():
        if len(values) == 1 and not name.startswith("__") and _is_plain(values[0]) and not isinstance(values[0], str):
            yield name, values[0]


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is float or kind is int:
        return bool(abs(value) < _LARGEST)  # neither infinite nor no number
    return kind is bool or (kind is str and len(value) <= _MOST_WORD)
