"""The words of the command line before its options: ``[[MODEL_TYPE] SIZE_BILLIONS BATCH]``, or ``MODEL [BATCH]``."""

from __future__ import annotations

import os

from preflight.catalog.files import Folders
from preflight.errors import UsageError, nearest
from preflight.plan.inputs.form import TYPES
from preflight.plan.inputs.settings import Said, Settings, as_number, said

_EXAMPLE = "preflight plan transformer 7.0 32"


def is_configuration(word: str) -> bool:
    """Return whether a word names the configuration of a model, or a folder that holds one."""
    return word.endswith(".json") or os.path.isfile(os.path.join(word, "config.json"))


def subject_of(words: tuple[str, ...], catalog: Folders = ()) -> tuple[str, str] | None:
    """Return the option that the first word stands for, where it names a model, and the word.

    ``script`` where it is a training script, ``config`` where it holds settings, ``model_named`` where it is a model of
    the catalog or a configuration of one; None where it is a type of models or a number, or names nothing.
    """
    word = words[0] if words else ""
    if not word or as_number(word) is not None or _key(word) in TYPES:
        return None
    if word.endswith((".py", ".ipynb", ".pyw")):
        return "script", word
    if word.endswith((".yaml", ".yml")):
        return "config", word
    if is_configuration(word):
        return "model_named", word
    from preflight.catalog.architectures import find_name

    return ("model_named", word) if find_name(word, tuple(catalog)) else None


def positional(words: tuple[str, ...], named: bool) -> Settings:
    """Return what the words say; where the model is named by an option, only the batch may be among them.

    Raises:
        UsageError: A word is neither a model type nor a number, or there are too many or too few.
    """
    rest, found = list(words), dict[str, Said]()
    if rest and as_number(rest[0]) is None:
        found["model.type"] = Said(_type(rest.pop(0)), "MODEL_TYPE")
        if not rest and not named:
            raise UsageError(f"{words[0]} of which size?", _EXAMPLE)
    if named and len(rest) == 2:
        raise UsageError("a size and --model: two models", "leave one of them out")
    for word in rest:
        if as_number(word) is None:
            raise UsageError(f"{word!r} is not a number", f"a size in billions, then a batch: {_EXAMPLE}")
    if len(rest) > 2:
        raise UsageError(f"{len(rest)} numbers: a plan has a size in billions and a batch", _EXAMPLE)
    names = ["model.batch_size"] if named else ["model.size_billions", "model.batch_size"]
    for path, word in zip(names, rest, strict=False):
        found[path] = said(path, word, "BATCH" if path.endswith("size") and "batch" in path else "SIZE_BILLIONS")
    return Settings(found)


def _type(word: str) -> str:
    key = _key(word)
    if key in TYPES:
        return key
    from preflight.catalog.architectures import near_name

    near = nearest(key, TYPES) or near_name(word, alike=0.7)
    raise UsageError(
        f"no model and no type of models is called {word!r}",
        f"did you mean {near}?"
        if near
        else f"a type ({', '.join(TYPES)}) and a size in billions ({_EXAMPLE}), "
        "or a model: 'preflight list models' shows the names",
    )


def _key(word: str) -> str:
    return word.lower().replace("-", "_")
