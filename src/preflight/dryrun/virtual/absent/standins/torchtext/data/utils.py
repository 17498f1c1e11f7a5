"""Tokenizers of torchtext."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_SIGNS = re.compile(r"([.,!?()';:\"])")


def _basic_english(line: str) -> list[str]:
    line = re.sub(r"<br />|\"|[;:]", " ", line.lower())
    return _SIGNS.sub(r" \1 ", line).split()


def get_tokenizer(tokenizer: Any, language: str = "en") -> Callable[[str], list[str]]:
    """Return what splits a text; those of other packages split it at the same signs."""
    if tokenizer is None:
        return str.split
    return tokenizer if callable(tokenizer) else _basic_english


def ngrams_iterator(token_list: list[str], ngrams: int) -> Iterator[str]:
    """Yield words, then pairs of them, and so on."""
    for size in range(1, ngrams + 1):
        yield from (" ".join(token_list[i : i + size]) for i in range(len(token_list) - size + 1))
