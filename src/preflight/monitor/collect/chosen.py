"""What a program was set to: its options as they came to be, defaults too, and the constants of its files.

A command line tells only what somebody typed. What an option is that nobody gave, what a configuration file said, and what
stands at the top of a script, decides over a training as much: with it a reader can tell a setting that was changed from a
number that slipped in.
Read are, where the training is called from, namespaces of ``argparse``, data classes, and whatever is held under a name by
which settings usually go; of these the plain values, without asking the objects anything.
What may be secret is left out: whatever stands under a name that secrets have, but for fractions and switches, and what does
not look like a word that somebody chose among a few, as addresses and keys do not.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from itertools import islice
from opcode import opmap
from types import CodeType, FrameType, MemberDescriptorType, ModuleType
from typing import Any

from .naming import user_frames
from .scope import attributes_of, is_a, variables

_NAMES = frozenset(
    "arg args argument arguments opt opts option options cfg conf config configuration configs flag flags hparams hp hps "
    "hyperparameters hyperparams hyper param params parameters setting settings train_config training_args train_args".split()
)
_SECRET = tuple(
    "key token secret pass pwd credential auth cookie bearer private login user mail api url uri dsn hook jwt salt sas".split()
)
_HIDING = frozenset("token secret password passwd passphrase pass pwd credential credentials apikey auth".split())
_KEY = re.compile(r"(hf_|sk-|ghp_|gho_|github_pat_|glpat-|AKIA|xox[abp]-)[\w-]{12,}")
"""What keys of well-known services begin with."""
_MOST = 400
_CHOICE = re.compile(r"[\w.+-]{1,30}", re.ASCII)
_OF_CHANCE = re.compile(r"(?=[a-zA-Z]*\d)[a-zA-Z\d]{16}")
"""Letters with digits among them, too long for a word: a key, or what a hash gave."""
_MOST_LISTED = 8
_DEEP = 3
_LARGEST = 10**15
_STORES = (opmap["STORE_NAME"], opmap["STORE_GLOBAL"])
_CONSTANT, _SMALL, _EXTENDED = opmap["LOAD_CONST"], opmap.get("LOAD_SMALL_INT", -1), opmap["EXTENDED_ARG"]


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
    made: list[dict[Any, Any]] = []
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
                    if is_a(value, type):
                        made.append(inside)  # what its objects were set to comes before what they begin with
                    else:
                        _take(inside, "", options, _DEEP)
        if here.f_code.co_name == "<module>":
            constants.update(islice(_written(here.f_code), _MOST))
    for inside in made:
        _take(inside, "", options, _DEEP)
    return options, constants


def _named(name: Any) -> bool:
    return isinstance(name, str) and name.strip("_").lower() in _NAMES


def _inside(value: Any, named: bool) -> dict[Any, Any] | None:
    """What something holds by name, where it is settings; None where it is none."""
    kind = type(value)
    if is_a(value, dict):
        return dict(islice(dict.items(value), _MOST)) if named else None
    if is_a(value, (ModuleType, type)):  # a module may be one that is loaded when it is asked for something
        inside = _own(value) if is_a(value, type) else attributes_of(value)
        return dict(inside) if named and "__dataclass_fields__" not in inside else None
    argparse = sys.modules.get("argparse")
    parsed = argparse is not None and issubclass(kind, argparse.Namespace)
    line = type.__getattribute__(kind, "__mro__")
    if not (named or parsed or any("__dataclass_fields__" in _own(one) for one in line)):
        return None
    if str(type.__getattribute__(kind, "__module__")).partition(".")[0] == "torch":
        return None  # what is called opt may be an optimizer
    held = attributes_of(value) or _in_slots(value, line)
    if "_modules" in held:
        return None  # a model
    nodes = held.get("_content", held.get("_fields"))  # of OmegaConf and of ml_collections
    return nodes if is_a(nodes, dict) else held


def _own(kind: Any) -> Any:
    """What a class itself holds by name, without asking the class that it is made by."""
    return type.__getattribute__(kind, "__dict__")


def _in_slots(value: Any, line: tuple[Any, ...]) -> dict[str, Any]:
    """What an object holds by name that has slots in place of a dictionary."""
    found: dict[str, Any] = {}
    for kind in reversed(line):
        for name, slot in _own(kind).items():
            if type(slot) is MemberDescriptorType and slot.__objclass__ is kind:
                with contextlib.suppress(AttributeError):  # nothing was put there yet
                    found[name] = slot.__get__(value)
    return found


def _take(inside: dict[Any, Any], before: str, found: dict[str, Any], deep: int) -> None:
    """Add the plain values to what was found, those of parts under the names of both; of a large table only the first ones."""
    for name, value in list(islice(inside.items(), _MOST)):
        if len(found) >= _MOST:
            return
        if type(name) is not str or name.startswith("_"):
            continue
        if (node := attributes_of(value).get("_val", value)) is not value and _is_plain(node):
            value = node
        if _is_plain(value):
            if not _may_be_secret(before + name, value):
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
    for operation, argument in _steps(code.co_code):
        if operation in _STORES:
            given.setdefault(code.co_names[argument], []).append(before)
        small = operation == _SMALL
        before = argument if small else code.co_consts[argument] if operation == _CONSTANT else None
    for name, values in given.items():
        plain = len(values) == 1 and _is_plain(values[0]) and not isinstance(values[0], str)
        if plain and not name.startswith("__") and not _may_be_secret(name, values[0]):
            yield name, values[0]


def _steps(code: bytes) -> Iterator[tuple[int, int]]:
    """The operations of code with their arguments; read by hand, since the library makes an object of each."""
    high = 0
    for operation, low in zip(code[::2], code[1::2], strict=True):
        if operation == _EXTENDED:
            high = (high | low) << 8
        else:
            yield operation, high | low
            high = 0


def command_line(words: list[str]) -> list[str]:
    """Return the words of a command line, without the values of options that secrets are given by.

    Args:
        words: The interpreter, the script and what they are given.
    """
    shown: list[str] = []
    hides = False
    for word in words:
        name, given, value = word.partition("=") if word.startswith("-") else ("", "", word)
        bare = value if given or not name else ""
        secret = (hides or _hides(name)) if given or not name else False
        if bare and (_KEY.match(bare) or (secret and not bare.replace(".", "", 1).isdigit())):
            word = f"{name}{given}***"
        shown.append(word)
        hides = bool(name) and not given and _hides(name)
    return shown


def _hides(option: str) -> bool:
    return not _HIDING.isdisjoint(re.split(r"[-_.]+", option.lower()))


def _may_be_secret(name: str, value: Any) -> bool:
    if type(value) in (float, bool):
        return False
    word = isinstance(value, str) and (_CHOICE.fullmatch(value) is None or _OF_CHANCE.search(value) is not None)
    return word or any(part in name.lower() for part in _SECRET)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is float or kind is int:
        return bool(abs(value) < _LARGEST)  # neither infinite nor no number
    return kind is bool or kind is str
