"""What a person said, key by key, each value with its place, checked against the form."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from preflight.errors import UsageError, nearest
from preflight.plan.inputs.form import KEYS, Key

# Sizes as people write them: 300B tokens, 1.5T, 4k.
_SUFFIXES = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_FULL = re.compile(r"full:(\d+)")
RECOMPUTE = ("none", "full", "selective", "op")


class Said(msgspec.Struct, frozen=True):
    """A value, and where it stands: ``plan.yaml:7`` or ``--precision``."""

    value: Any
    where: str


class Settings:
    """Values by key. What was not said is not there."""

    def __init__(self, said: Mapping[str, Said] | None = None) -> None:
        """Keep the values."""
        self.said = dict(said or {})

    def __contains__(self, path: str) -> bool:
        return path in self.said

    def get(self, path: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        found = self.said.get(path)
        return default if found is None else found.value

    def where(self, path: str) -> str:
        """Return the place of a value that was said."""
        return self.said[path].where

    def error(self, path: str, message: str, hint: str | None = None) -> UsageError:
        """Return the error about one value."""
        return UsageError(f"{self.where(path)}: {message}", hint)

    def over(self, below: Settings) -> Settings:
        """Return these settings with what they do not say taken from others."""
        return Settings({**below.said, **self.said})

    def without(self, paths: Iterable[str]) -> Settings:
        """Return the settings without some keys."""
        dropped = set(paths)
        return Settings({path: said for path, said in self.said.items() if path not in dropped})


def said(path: str, raw: Any, where: str) -> Said:
    """Return a value of the form, turned into its kind and checked.

    Raises:
        UsageError: The value is of another kind, out of range or none of the choices.
    """
    key = KEYS[path]
    try:
        return Said(_value(key, raw), where)
    except UsageError as error:
        spoken = where if where.startswith("-") or where.isupper() else f"{where}: {path}"
        raise UsageError(f"{spoken} {error}", error.hint) from None


def _value(key: Key, raw: Any) -> Any:
    if key.kind == "flag":
        if not isinstance(raw, bool):
            raise UsageError(f"is {_shown(raw)}, which is not true or false", "true or false, without quotes")
        return raw
    if key.kind in ("whole", "number"):
        return _number(key, raw)
    if key.path == "run.torch" and not isinstance(raw, str):
        raise UsageError(f"is {_shown(raw)}, which YAML takes for a number", f"in quotes: torch: '{raw}'")
    if key.path == "run.recompute":
        return _recompute(str(raw))
    if not isinstance(raw, str):
        listing = f"one of {', '.join(key.choices)}" if key.choices else f"text, for example {key.name}: NAME"
        raise UsageError(f"is {_shown(raw)}, which is not a name", listing)
    return _choice(raw, key.choices) if key.choices else raw.strip()


def _number(key: Key, raw: Any) -> float | int:
    number = as_number(raw)
    if number is not None and key.path == "model.size_billions" and isinstance(raw, str) and raw.strip()[-1:].isalpha():
        number /= 1e9  # 7B is seven billion, and 125M an eighth of one
    whole = key.kind == "whole"
    if number is None or not math.isfinite(number):
        kind, example = ("whole number", "8") if whole else ("number", "7 or 0.5")
        raise UsageError(f"is {_shown(raw)}, which is not a {kind}", f"for example {example}")
    if key.least is not None and number < key.least:
        raise UsageError(f"is {_shown(raw)}, which is too small", f"at least {key.least:g}")
    if key.above is not None and number <= key.above:
        raise UsageError(f"is {_shown(raw)}, which is too small", f"more than {key.above:g}")
    if number > key.most:
        raise UsageError(f"is {_shown(raw)}, which is too large", f"at most {key.most:g}")
    if not whole:
        return number
    if number != int(number):
        raise UsageError(f"is {_shown(raw)}, which is not a whole number", f"{round(number)} is")
    return int(number)


def as_number(raw: Any) -> float | None:
    """Return a number as it is written in YAML or on a command line, with k, M, B or T behind it; None for anything else."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, (int, float)):
        return float(raw)
    if not isinstance(raw, str):
        return None
    text = raw.strip().lower().replace("_", "").replace(",", "")
    factor = _SUFFIXES.get(text[-1:], 1.0)
    try:
        return float(text[:-1] if text[-1:] in _SUFFIXES else text) * factor
    except ValueError:
        return None


def _recompute(raw: str) -> str:
    text = raw.strip().lower()
    if _FULL.fullmatch(text):
        return text
    if text.startswith("full:"):
        raise UsageError(f"is {raw!r}, which names no number of blocks", "for example full:12, or full for all of them")
    return _choice(raw, (*RECOMPUTE, "full:K"))


def _choice(raw: str, choices: tuple[str, ...]) -> str:
    """Return the choice that is meant, whatever its case and ``_`` or ``-``."""
    plain = {choice.lower().replace("_", "-"): choice for choice in choices}
    word = raw.strip().lower().replace("_", "-")
    if word in plain:
        return plain[word]
    near = nearest(word, plain)
    listing = f"one of {', '.join(choices)}"
    raise UsageError(f"is {raw!r}, which there is not", f"did you mean {plain[near]}? {listing}" if near else listing)


def recomputed(text: str) -> tuple[str, int | None]:
    """Return the kind of recomputation, and the number of blocks where it was said (``full:12``)."""
    found = _FULL.fullmatch(text)
    return ("full", int(found[1])) if found else (text, None)


def _shown(raw: Any) -> str:
    if raw is None:
        return "empty"
    text = (
        raw if isinstance(raw, str) else {True: "true", False: "false"}.get(raw, raw) if isinstance(raw, bool) else raw
    )
    return repr(text) if isinstance(text, str) and isinstance(raw, str) else str(text)
