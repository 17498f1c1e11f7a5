"""The words of the command line before its options: ``[[MODEL_TYPE] SIZE_BILLIONS BATCH]``."""

from __future__ import annotations

from preflight.errors import UsageError, nearest
from preflight.plan.inputs.form import TYPES
from preflight.plan.inputs.settings import Said, Settings, as_number, said

_EXAMPLE = "preflight plan transformer 7.0 32"


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
    key = word.lower().replace("-", "_")
    if key in TYPES:
        return key
    near = nearest(key, TYPES)
    raise UsageError(
        f"no model type is called {word!r}",
        f"did you mean {near}?" if near else f"one of {', '.join(TYPES)}; or a size in billions: {_EXAMPLE}",
    )
