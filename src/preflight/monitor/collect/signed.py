"""Labels of losses that take 1 and -1: how many of them are anything else, in the first few calls of each place."""

from __future__ import annotations

import functools
from typing import Any

from .bounded import BoundedLooks
from .functionals import readable, watch
from .patching import Patches
from .pending import Pending, to_host
from .places import from_program, here
from .plain import Outside, impossible
from .recorder import Recorder

NAME = "labels.unsigned"
_MOST_LOOKS = 6
_MOST_PLACES = 32
_POSITIONS = {
    "cosine_embedding_loss": 2,
    "margin_ranking_loss": 2,
    "hinge_embedding_loss": 1,
    "soft_margin_loss": 1,
}
"""Where each loss takes its labels."""


class SignedLabels:
    """Watches the losses that take 1 for one kind of sample and -1 for the other."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        for name, position in _POSITIONS.items():
            watch(self.recorder, patches, name, functools.partial(self._look, name, position))

    def _look(self, name: str, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder = self.recorder
        labels: Any = kwargs.get("target", args[position] if len(args) > position else None)
        if not readable(recorder, labels) or not recorder.wants(NAME) or impossible(recorder.torch):
            return
        place = here()
        if not self._looks.take(place or ""):
            return
        with Outside(recorder.torch):
            told = to_host(recorder.torch, (labels.detach().abs() != 1).float().mean().reshape(1))
        head = recorder.head()
        subject = f"{from_program(place)}#{name}"
        recorder.later(
            Pending([told], lambda read: read[0]), lambda values: [("scalar", (*head, NAME, subject, values[0]))]
        )
