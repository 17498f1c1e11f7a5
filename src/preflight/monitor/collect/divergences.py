"""Kullback-Leibler divergences: what they are given, looked at in the first few calls of each place.

``F.kl_div`` takes logarithms on one side and probabilities on the other, and computes a number from anything else, too.
Of what it is given a few shares are told as numbers; nothing is kept.
"""

from __future__ import annotations

from typing import Any

from .bounded import BoundedLooks
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
_SUMMED = 1e-3
"""What rounding may make of a sum of probabilities that is one."""
NAMES = ("divergence.positive", "divergence.itself", "divergence.crosswise")


class Divergences:
    """Watches ``torch.nn.functional.kl_div``, which ``nn.KLDivLoss`` calls, too."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)

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
        if not self._looks.take(place or ""):
            return
        alike = given.shape == target.shape
        logarithms = bool(kwargs.get("log_target", args[5] if len(args) > 5 else False))
        with Outside(recorder.torch):
            shares = {NAMES[0]: (given > _ROUNDED).float().mean()}
            if alike and not given.requires_grad and not target.requires_grad:
                other = target if logarithms else target.float().clamp_min(1e-30).log()
                shares[NAMES[1]] = ((given - other).abs() <= _ROUNDED).all().float()
            if alike and given.dim() > 1 and min(given.shape) > 1:
                shares[NAMES[2]] = self._crosswise(given.exp(), target.exp() if logarithms else target)
            told = to_host(recorder.torch, recorder.torch.stack(list(shares.values())))
        head = recorder.head()
        word = from_program(place)
        names = tuple(shares)
        recorder.later(
            Pending([told], lambda read: read[0]),
            lambda values: [("scalar", (*head, name, word, value)) for name, value in zip(names, values, strict=True)],
        )

    def _crosswise(self, given: Any, target: Any) -> Any:
        """Whether both are probabilities that sum to one over one axis each, and not over the same one."""
        torch = self.recorder.torch
        one, other = (
            torch.stack([((held.sum(axis) - 1).abs() <= _SUMMED).all() for axis in range(held.dim())])
            for held in (given, target)
        )
        return ((one.sum() == 1) & (other.sum() == 1) & ~(one & other).any()).float()

    def _readable(self, one: Any) -> bool:
        """Whether the numbers of a tensor can be compared where they lie."""
        return readable(self.recorder, one) and bool(one.is_floating_point())
