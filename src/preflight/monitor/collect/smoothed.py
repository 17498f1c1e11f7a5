"""Targets of a cross entropy that smooths them: whether they were smoothed before, in the first few calls of each place."""

from __future__ import annotations

from typing import Any

from .bounded import BoundedLooks
from .functionals import readable, watch
from .patching import Patches
from .pending import Pending, to_host
from .places import from_program, here
from .plain import Outside, impossible
from .recorder import Recorder

NAME = "labels.smoothed"
_MOST_LOOKS = 6
_MOST_PLACES = 32
_SMOOTHING = 7  # where the function takes by position how much it smooths
_LEAST = 4  # classes
_SOME = 0.01  # what all classes have of a row that was smoothed; a guard of the logarithm against nought is far less


class SmoothedLabels:
    """Watches ``torch.nn.functional.cross_entropy``, which ``nn.CrossEntropyLoss`` calls, too."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)

    def install(self, patches: Patches) -> None:
        """Put the watching function in place."""
        if self.recorder.wants(NAME):
            watch(self.recorder, patches, "cross_entropy", self._look)

    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder = self.recorder
        smoothing = kwargs.get("label_smoothing", args[_SMOOTHING] if len(args) > _SMOOTHING else 0.0)
        target: Any = kwargs.get("target", args[1] if len(args) > 1 else None)
        if not smoothing or not readable(recorder, target) or not target.is_floating_point():
            return
        if target.dim() != 2 or target.shape[1] < _LEAST or impossible(recorder.torch):
            return
        place = here()
        if not self._looks.take(place or ""):
            return
        with Outside(recorder.torch):
            rows = target.detach()
            least = rows.amin(1, keepdim=True)
            # Two classes at most stand out of a row whose others all have one and the same small share.
            alike = (rows == least).sum(1)
            before = (least[:, 0] * rows.shape[1] > _SOME) & (alike >= rows.shape[1] - 2) & (alike < rows.shape[1])
            told = to_host(recorder.torch, before.float().mean().reshape(1))
        head = recorder.head()
        word = from_program(place)
        recorder.later(
            Pending([told], lambda read: read[0]), lambda values: [("scalar", (*head, NAME, word, values[0]))]
        )
