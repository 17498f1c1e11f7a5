"""What a batch holds, as a person writes it: ``x: float32[8,3,224,224], y: int64[8]``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod

import msgspec

from preflight.errors import UsageError, nearest

EXAMPLE = '--batch "x: float32[8,3,224,224], y: int64[8]"'
TYPES = (
    "float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
)  # fmt: skip
_SHORT = {"float": "float32", "half": "float16", "double": "float64", "long": "int64", "int": "int32"}
_PART = re.compile(r"(?:(?P<name>[^:\[\]]+?)\s*:)?\s*(?P<type>[\w.]+)\s*\[(?P<shape>[^\[\]]*)\]\s*")
_MOST = 1 << 33  # elements of one tensor: what a batch of the largest pictures does not come near


class Part(msgspec.Struct, frozen=True):
    """One tensor of a batch.

    Attributes:
        name: Its key; empty where it is known by its place alone.
        dtype: ``float32``, ``int64`` ...
        shape: With the size of the batch first.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


def parse_batch(text: str) -> tuple[Part, ...]:
    """Return the tensors of a batch.

    Raises:
        UsageError: A part cannot be understood.
    """
    parts = tuple(_part(piece) for piece in _pieces(text))
    if not parts:
        raise UsageError("--batch names no tensor", f"for example {EXAMPLE}")
    names = [part.name for part in parts if part.name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--batch names {twice} twice", f"every tensor has a name of its own: {EXAMPLE}")
    sizes = {part.shape[0] for part in parts if part.shape}
    if len(sizes) > 1:
        raise UsageError(
            f"--batch: the tensors begin with different sizes ({', '.join(map(str, sorted(sizes)))})",
            f"the first size of each is that of the batch: {EXAMPLE}",
        )
    return parts


def _pieces(text: str) -> Iterator[str]:
    """Split at the commas outside brackets."""
    depth, begin = 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter in ",;" and depth == 0:
            yield text[begin:at].strip()
            begin = at + 1
    if text[begin:].strip():
        yield text[begin:].strip()


def _part(piece: str) -> Part:
    found = _PART.fullmatch(piece)
    if found is None:
        raise UsageError(f"--batch: '{piece}' is not NAME: TYPE[SIZES]", f"for example {EXAMPLE}")
    word = found["type"].removeprefix("torch.")
    dtype = _SHORT.get(word, word)
    if dtype not in TYPES:
        close = nearest(word, (*TYPES, *_SHORT))
        raise UsageError(
            f"--batch: '{piece}' names the type {word}, which a tensor does not have",
            f"did you mean {close}?" if close else f"one of {', '.join(TYPES)}",
        )
    return Part((found["name"] or "").strip(), dtype, _shape(found["shape"], piece))


def _shape(text: str, piece: str) -> tuple[int, ...]:
    words = [word.strip() for word in re.split(r"[,x]", text)] if text.strip() else []
    for word in words:
        if not word.isdigit() or int(word) == 0:
            raise UsageError(
                f"--batch: '{piece}' has the size '{word}', which is not a positive number", f"for example {EXAMPLE}"
            )
    shape = tuple(map(int, words))
    if prod(shape) > _MOST:
        raise UsageError(f"--batch: '{piece}' has {prod(shape):,} elements", f"for example {EXAMPLE}")
    return shape


def parse_assumptions(given: Sequence[str]) -> dict[str, str]:
    """Return the configurations that a person named, by the model that they are for.

    Args:
        given: ``MODEL=CONFIG`` each; ``model`` is every model that no other one names.

    Raises:
        UsageError: One is not of that form, or a model is named twice.
    """
    example = "for example --assume model=config.json or --assume our/model=meta-llama/Llama-3.2-1B"
    found: dict[str, str] = {}
    for text in given:
        name, equals, config = (part.strip() for part in text.partition("="))
        if not name or not equals or not config:
            raise UsageError(f"--assume {text} is not MODEL=CONFIG", example)
        if found.setdefault(name, config) != config:
            raise UsageError(f"--assume names {name} twice: {found[name]} and {config}", "leave one of them out")
    return found
