"""Vocabularies of tiktoken without their files: the size is right, the words are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_VOCABULARIES = {"gpt2": 50257, "r50k_base": 50257, "p50k_base": 50281, "cl100k_base": 100277, "o200k_base": 200019}
"""Sizes of tiktoken's vocabularies, with their special tokens (tiktoken_ext/openai_public)."""


class Encoding:
    """A vocabulary of a size: a number for each four letters of the text.

    Args:
        name: Its name.
        n_vocab: Its size.
    """

    def __init__(self, name: str, n_vocab: int) -> None:
        self.name, self.n_vocab = name, n_vocab
        self.max_token_value = self.eot_token = n_vocab - 1
        self._special_tokens = {"<|endoftext|>": self.eot_token}
        self.special_tokens_set = set(self._special_tokens)

    def encode(self, text: str, *args: Any, **kwargs: Any) -> list[int]:
        """Return numbers; a special token by itself is its own."""
        if text in self._special_tokens:
            return [self._special_tokens[text]]
        return [sum(map(ord, text[at : at + 4])) % (self.n_vocab - 1) for at in range(0, len(text), 4)]

    encode_ordinary = encode

    def encode_single_token(self, text: str) -> int:
        """Return one number."""
        return self.encode(text)[0]

    def encode_ordinary_batch(self, texts: list[str], *args: Any, **kwargs: Any) -> list[list[int]]:
        """Return numbers for several texts."""
        return [self.encode(text) for text in texts]

    encode_batch = encode_ordinary_batch

    def decode(self, tokens: Any, *args: Any, **kwargs: Any) -> str:
        """Return a text of as many words."""
        return " ".join("word" for _ in tokens)

    def decode_bytes(self, tokens: Any, *args: Any, **kwargs: Any) -> bytes:
        """Return the same as bytes."""
        return self.decode(tokens).encode()

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Return the bytes of one token."""
        return b"word"

    def decode_batch(self, batch: Any, *args: Any, **kwargs: Any) -> list[str]:
        """Return a text for each row of tokens."""
        return [self.decode(tokens) for tokens in batch]


def install(module: Any, assume: Callable[[str], None]) -> None:
    """Meet the vocabularies of tiktoken, which it downloads."""
    read, named = module.get_encoding, module.model.encoding_name_for_model

    def get_encoding(name: str) -> Any:
        try:
            return read(name)
        except Exception:
            if name not in _VOCABULARIES:
                raise
            assume(f"tiktoken {name}: {_VOCABULARIES[name]} tokens, one for each four letters of the text")
            return Encoding(name, _VOCABULARIES[name])

    module.get_encoding = get_encoding
    module.encoding_for_model = lambda model: get_encoding(named(model))
