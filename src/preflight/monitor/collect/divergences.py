"""Kullback-Leibler divergences: what they are given, looked at in the first few calls of each place.

``F.kl_div`` takes logarithms on one side and probabilities on the other, and computes a number from anything else, too.
Of what it is given two shares are told as numbers; nothing is kept.
"""

from __future__ import annotations

from typing import Any

from .functionals import readable, watch
from .patching import Patches
from .pending import Pending, to_host
from .places import from_program, here
from .plain import Outside, impossible
from .recorder import Recorder

_MOST_LOOKS = 6
_MOST_PLACES = 32
_ROUNDED = 1e-4
"""What rounding may make of the logarithm of one, and of the difference between equal probabilities."""
NAMES = ("divergence.positive", "divergence.itself")


class Divergences:
    """Watches ``torch.nn.functional.kl_div``, which ``nn.KLDivLoss`` calls, too."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._looks: dict[str, int] = {}

    def install(self, patches: Patches) -> None:
        """Put the watching function in place."""
        watch(self.recorder, patches, "kl_div", self._look)

    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder = self.recorder
        given: Any = kwargs.get("input", args[0] if args else None)
        target: Any = kwargs.get("target", args[1] if len(args) > 1 else None)
        if not self._readable(given) or not self._readable(target) or given.device != target.device:
            return
        if not recorder.wants("scalar") or impossible(recorder.torch):
            return
        place = here()
        looks = self._looks.get(place or "", 0)
        if looks >= _MOST_LOOKS or (not looks and len(self._looks) >= _MOST_PLACES):
            return
        self._looks[place or ""] = looks + 1
        untrained = not given.requires_grad and not target.requires_grad and given.shape == target.shape
        logarithms = bool(kwargs.get("log_target", args[5] if len(args) > 5 else False))
        with Outside(recorder.torch):
            shares = [(given > _ROUNDED).float().mean()]
            if untrained:
                other = target if logarithms else target.float().clamp_min(1e-30).log()
                shares.append(((given - other).abs() <= _ROUNDED).all().float())
            told = to_host(recorder.torch, recorder.torch.stack(shares))
        head = recorder.head()
        word = from_program(place)
        recorder.later(
            Pending([told], lambda read: read[0]),
            lambda values: [("scalar", (*head, name, word, value)) for name, value in zip(NAMES, values, strict=False)],
        )

    def _readable(self, one: Any) -> bool:
        """Whether the numbers of a tensor can be compared where they lie."""
        return readable(self.recorder, one) and bool(one.is_floating_point())
