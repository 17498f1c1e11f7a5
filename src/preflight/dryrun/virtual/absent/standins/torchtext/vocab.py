"""Vocabularies of torchtext."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Any

import torch


class Vocab(torch.nn.Module):
    """Words and their numbers.

    Args:
        words: The words in the order of their numbers.
    """

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__()
        self._words = list(words)
        self._numbers = {word: number for number, word in enumerate(self._words)}
        self._default: int | None = None

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, token: str) -> bool:
        return token in self._numbers

    def __getitem__(self, token: str) -> int:
        number = self._numbers.get(token, self._default)
        if number is None:
            raise RuntimeError(f"Token {token} not found and default index is not set")
        return number

    def forward(self, tokens: list[str]) -> list[int]:
        """Return the numbers of words."""
        return [self[token] for token in tokens]

    def set_default_index(self, index: int | None) -> None:
        """Give unknown words a number."""
        self._default = index

    def get_default_index(self) -> int | None:
        """Return the number of unknown words."""
        return self._default

    def insert_token(self, token: str, index: int) -> None:
        """Put a word in."""
        self._words.insert(index, token)
        self._numbers = {word: number for number, word in enumerate(self._words)}

    def append_token(self, token: str) -> None:
        """Put a word at the end."""
        self.insert_token(token, len(self._words))

    def lookup_token(self, index: int) -> str:
        """Return a word."""
        return self._words[index]

    def lookup_tokens(self, indices: list[int]) -> list[str]:
        """Return words."""
        return [self._words[index] for index in indices]

    def lookup_indices(self, tokens: list[str]) -> list[int]:
        """Return numbers."""
        return self.forward(tokens)

    def get_stoi(self) -> dict[str, int]:
        """Return the numbers of all words."""
        return dict(self._numbers)

    def get_itos(self) -> list[str]:
        """Return all words."""
        return list(self._words)


def vocab(ordered_dict: dict[str, int], min_freq: int = 1, specials: Any = None, special_first: bool = True) -> Vocab:
    """Return a vocabulary of counted words."""
    special = list(specials or [])
    words = [word for word, count in ordered_dict.items() if count >= min_freq and word not in special]
    return Vocab(special + words if special_first else words + special)


def build_vocab_from_iterator(
    iterator: Iterable[Any], min_freq: int = 1, specials: Any = None, special_first: bool = True,
    max_tokens: int | None = None,
) -> Vocab:  # fmt: skip
    """Return the vocabulary of texts, the frequent words first."""
    counts = Counter(token for tokens in iterator for token in tokens)
    for token in specials or ():
        counts.pop(token, None)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    rows = rows if max_tokens is None else rows[: max_tokens - len(specials or [])]
    return vocab(OrderedDict(rows), min_freq, specials, special_first)


class Vectors:
    """Word vectors that are not there: none is known, as for words that the real ones lack.

    Args:
        name: Which they are. dim: How long they are.
    """

    def __init__(self, name: str = "", cache: Any = None, dim: int = 300, **_: Any) -> None:
        self.dim, self.itos, self.stoi = int(dim), [], {}  # type: ignore[var-annotated]
        self.vectors = torch.zeros(0, self.dim)

    def __getitem__(self, token: str) -> torch.Tensor:
        return torch.zeros(self.dim)

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros(self.dim) if isinstance(tokens, str) else torch.zeros(len(tokens), self.dim)


GloVe = FastText = Vectors
