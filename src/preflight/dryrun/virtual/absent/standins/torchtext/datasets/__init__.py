"""Data sets of torchtext: rows of plausible words in the form of the real ones, 2,000 of each split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

ROWS = 2000
_WORDS = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one "
    "you were her all she there would their we him been has when who will more no if out so said what up its about into "
    "than them can only other new some could time these two may then do first any my now such like our over man me even"
).split()


class _Rows(torch.utils.data.IterableDataset[Any]):
    """Rows of a split."""

    def __init__(self, row: Callable[[int], Any], offset: int) -> None:
        self.row, self.offset = row, offset

    def __iter__(self) -> Iterator[Any]:
        return (self.row(place + self.offset) for place in range(ROWS))

    def __len__(self) -> int:
        return ROWS


def _text(place: int, mean: int) -> str:
    # Half to one and a half times as many words as texts of the set have.
    words = mean // 2 + place * 7919 % (mean + 1)
    return " ".join(_WORDS[(place * 31 + word * 17 + word * word) % len(_WORDS)] for word in range(max(words, 1)))


def _labelled(classes: int, mean: int, first: int = 1) -> Callable[[int], Any]:
    return lambda place: (first + place % classes, _text(place, mean))


def _set(row: Callable[[int], Any], splits: tuple[str, ...]) -> Callable[..., Any]:
    def made(root: Any = None, split: Any = splits, *_: Any, **__: Any) -> Any:
        parts = tuple(_Rows(row, ROWS * splits.index(name)) for name in ((split,) if isinstance(split, str) else split))
        return parts[0] if isinstance(split, str) else parts

    return made


def _pair(place: int) -> Any:
    return _text(place, 12), _text(place + 1, 13)


_TWO, _THREE = ("train", "test"), ("train", "valid", "test")
AG_NEWS = _set(_labelled(4, 40), _TWO)
IMDB = _set(_labelled(2, 230), _TWO)
YelpReviewPolarity = _set(_labelled(2, 130), _TWO)
YelpReviewFull = _set(_labelled(5, 130), _TWO)
AmazonReviewPolarity = _set(_labelled(2, 75), _TWO)
DBpedia = _set(_labelled(14, 50), _TWO)
YahooAnswers = _set(_labelled(10, 100), _TWO)
SogouNews = _set(_labelled(5, 580), _TWO)
SST2 = _set(lambda place: (_text(place, 10), place % 2), ("train", "dev", "test"))
WikiText2 = WikiText103 = _set(lambda place: _text(place, 60), _THREE)
PennTreebank = _set(lambda place: _text(place, 21), _THREE)
Multi30k = IWSLT2016 = IWSLT2017 = _set(_pair, _THREE)
