"""Data sets of torchaudio: as many items as were published, of plausible lengths, with silence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

_WORDS = "the of and a to in he was that it his her with as had for she not at but be on they have him".split()
_LIBRISPEECH = {
    "train-clean-100": 28539, "train-clean-360": 104014, "train-other-500": 148688, "dev-clean": 2703,
    "dev-other": 2864, "test-clean": 2620, "test-other": 2939,
}  # fmt: skip
_COMMANDS = (
    "backward bed bird cat dog down eight five follow forward four go happy house learn left marvin nine no off on one "
    "right seven sheila six stop three tree two up visual wow yes zero"
).split()
_SHARES = {None: 105829, "training": 84843, "validation": 9981, "testing": 11005}
_GENRES = "blues classical country disco hiphop jazz metal pop reggae rock".split()


def _seconds(place: int) -> float:
    """Return how long an item is: 2 to 16 s."""
    return 2.0 + (place * 7919 % 141) / 10


def _text(place: int) -> str:
    # 2.5 words in a second are usual in read texts.
    return " ".join(_WORDS[(place + word * 7) % len(_WORDS)] for word in range(int(2.5 * _seconds(place))))


class _Sounds(torch.utils.data.Dataset[Any]):
    """A data set.

    Args:
        count: How many items it has.
        rate: Samples in a second.
    """

    def __init__(self, count: int, rate: int) -> None:
        self.count, self.rate = count, rate

    def __len__(self) -> int:
        return self.count

    def _sound(self, seconds: float) -> torch.Tensor:
        return torch.zeros(1, int(seconds * self.rate))


class LIBRISPEECH(_Sounds):
    """Sound, rate, text, speaker, chapter, utterance."""

    def __init__(self, root: Any, url: str = "train-clean-100", *_: Any, **__: Any) -> None:
        super().__init__(_LIBRISPEECH[os.path.basename(url)], 16000)

    def __getitem__(self, n: int) -> Any:
        if not 0 <= n < self.count:
            raise IndexError(n)
        return self._sound(_seconds(n)), self.rate, _text(n).upper(), 100 + n % 251, 1000 + n % 585, n % 100


class LJSPEECH(_Sounds):
    """Sound, rate, text, normalised text."""

    def __init__(self, root: Any, *_: Any, **__: Any) -> None:
        super().__init__(13100, 22050)

    def __getitem__(self, n: int) -> Any:
        if not 0 <= n < self.count:
            raise IndexError(n)
        return self._sound(min(_seconds(n), 10.0)), self.rate, _text(n), _text(n)


class SPEECHCOMMANDS(_Sounds):
    """Sound of one second, rate, word, speaker, number."""

    def __init__(
        self, root: Any, url: str = "speech_commands_v0.02", folder_in_archive: str = "SpeechCommands",
        download: bool = False, subset: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(_SHARES[subset], 16000)
        self._path = os.path.join(os.fspath(root), folder_in_archive, url)
        words = len(_COMMANDS)
        self._walker = [
            os.path.join(self._path, _COMMANDS[n % words], f"{n // words % 2618:08x}_nohash_{n % 5}.wav")
            for n in range(self.count)
        ]

    def __len__(self) -> int:
        return len(self._walker)

    def __getitem__(self, n: int) -> Any:
        name = Path(self._walker[n])
        speaker, _, number = name.stem.partition("_nohash_")
        return self._sound(1.0), self.rate, name.parent.name, speaker, int(number or 0)


class YESNO(_Sounds):
    """Sound, rate, eight words as 0 and 1."""

    def __init__(self, root: Any, *_: Any, **__: Any) -> None:
        super().__init__(60, 8000)

    def __getitem__(self, n: int) -> Any:
        if not 0 <= n < self.count:
            raise IndexError(n)
        return self._sound(6.0), self.rate, [n >> bit & 1 for bit in range(8)]


class GTZAN(_Sounds):
    """Sound of half a minute, rate, genre."""

    def __init__(self, root: Any, *_: Any, subset: str | None = None, **__: Any) -> None:
        super().__init__({None: 1000, "training": 443, "validation": 197, "testing": 290}[subset], 22050)

    def __getitem__(self, n: int) -> Any:
        if not 0 <= n < self.count:
            raise IndexError(n)
        return self._sound(30.0), self.rate, _GENRES[n % 10]
