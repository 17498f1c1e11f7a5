"""Whether the targets of a loss are random numbers that were drawn after the model had given its answer.

Where a trained model has given its output, the state of the generator is kept. Targets that are, number for number, what
a generator in that state draws next were drawn there. Programs that only try something out draw the model's input in the
same way: there is nothing to learn in them at all, and nothing is said. The state is read and never set: what is drawn to
compare with comes from a generator of the recorder's own.
"""

from __future__ import annotations

from typing import Any

from .plain import Outside, impossible, simple
from .recorder import Recorder

NAME = "targets.fresh"
_COMPARED = (
    1024  # numbers that are drawn to compare with; where a processor draws, they do not depend on how many follow
)
_BLOCK = 16  # numbers that are drawn together there; the last ones of a draw may be drawn anew
_LEAST = 4  # numbers that chance does not make alike
_MOST = 1 << 16  # numbers of a target on another device, where all must be drawn


class Draws:
    """Keeps the state of the generator that a trained model's output left, for one iteration."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._answer: Any = None  # the state that the last output left
        self._pass: Any = None  # and the last backward pass
        self._device: Any = None
        self._iteration = -1

    def answered(self, args: Any, output: Any) -> None:
        """A model that is trained has given an output."""
        self._answer, self._device = None, getattr(output, "device", None)
        given = args[0] if args else None
        if isinstance(given, self.recorder.torch.Tensor) and self._drawn(given, self._pass):
            return  # an input that is noise as well
        self._answer, self._iteration = self._state(), self.recorder.iteration

    def passed(self) -> None:
        """A backward pass begins: whatever was drawn for it was drawn."""
        self._pass = self._state()

    def fresh(self, target: Any) -> bool | None:
        """Whether a target was drawn right after the last answer; None where that cannot be told."""
        if self._iteration != self.recorder.iteration:
            return None
        return self._drawn(target, self._answer)

    def _state(self) -> Any:
        """The state of the generator of the device of the last output, in memory of the host."""
        torch, device = self.recorder.torch, self._device
        if device is None or device.type not in ("cpu", "cuda") or impossible(torch):
            return None
        with Outside(torch):
            return torch.get_rng_state() if device.type == "cpu" else torch.cuda.get_rng_state(device)

    def _drawn(self, tensor: Any, state: Any) -> bool | None:
        """Whether a tensor is what a generator in a state draws next; None where that cannot be told."""
        torch, count = self.recorder.torch, tensor.numel()
        if state is None or tensor.device != self._device or not simple(tensor) or not tensor.is_floating_point():
            return None
        here = tensor.device.type == "cpu"
        if count < _LEAST or (not here and count > _MOST) or not tensor.is_contiguous() or impossible(torch):
            return None
        with Outside(torch):
            generator = torch.Generator(device=tensor.device)
            generator.set_state(state)
            some = min(count, _COMPARED) if here else count
            drawn = torch.randn(some, generator=generator, dtype=tensor.dtype, device=tensor.device)
            kept = some if some == count else some - _BLOCK
            return bool(torch.equal(drawn[:kept], tensor.detach().reshape(-1)[:kept]))
