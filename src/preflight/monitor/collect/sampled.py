"""What teaches the mean of a distribution that a network gives and that is drawn from without a graph.

``Normal.sample()`` gives a number; ``rsample()`` gives one that leads back to mean and deviation. A network whose samples
are numbers learns nothing from what becomes of them. Where a divergence from a standard normal is all that is left, the
gradient of each mean is a constant share of the mean itself, which nothing else makes so. That is looked at in the
backward pass, in detailed iterations. What is asked for the probability of a sample is taught by that, also where it comes
to nothing, as with an advantage of zero: of it nothing is told.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from .bounded import BoundedLooks
from .graph import name_of
from .patching import Patches
from .pending import Pending, to_host
from .places import from_program, here
from .plain import DEVICES, Outside, impossible, simple
from .recorder import Recorder

NAME = "sample.off"
_LEAST = 16  # numbers that are no constant share of each other by chance
_MOST_LOOKS = 6
_MOST_PLACES = 32


class Sampled:
    """Watches draws from normal distributions that a network gave the mean of."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)
        # By distribution, whether it was asked for a probability: a graph that held the distribution would hold itself.
        self._asked: weakref.WeakKeyDictionary[Any, list[bool]] = weakref.WeakKeyDictionary()

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        if self.recorder.wants(NAME):
            kind = self.recorder.torch.distributions.Normal
            patches.replace(kind, "log_prob", self._watching(kind.log_prob, self._ask))
            patches.replace(kind, "sample", self._watching(kind.sample, self._look))

    def _watching(self, original: Callable[..., Any], seen: Callable[[Any], None]) -> Callable[..., Any]:
        recorder = self.recorder
        compiling = recorder.torch.compiler.is_compiling
        recording = recorder.torch.is_grad_enabled

        def look(own: Any) -> None:
            if recorder.detail and recording() and recorder.active():
                with recorder.work("sample"):
                    seen(own)

        # It holds functions alone: what the compiler cannot wrap would break the graph of a distribution made in it.
        @functools.wraps(original)
        def watched(own: Any, *args: Any, **kwargs: Any) -> Any:
            if not compiling():
                look(own)
            return original(own, *args, **kwargs)

        return watched

    def _ask(self, own: Any) -> None:
        self._asked.setdefault(own, [False])[0] = True

    def _look(self, own: Any) -> None:
        torch, mean = self.recorder.torch, own.loc
        if type(mean) is not torch.Tensor or not mean.requires_grad or mean.numel() < _LEAST or impossible(torch):
            return
        node, index = _given(mean)
        if node is None or not simple(mean) or mean.device.type not in DEVICES:
            return
        place = here()
        word = from_program(place) or ""
        if not self._looks.take(word):
            return
        asked = self._asked.setdefault(own, [False])
        with Outside(torch):
            numbers = mean.detach()
        node.register_prehook(functools.partial(self._came, asked, numbers, index, word))

    def _came(self, asked: list[bool], mean: Any, index: int, word: str, gradients: tuple[Any, ...]) -> None:
        """The gradient of a mean has come: tell how far it is from a constant share of it, as a share of itself."""
        recorder = self.recorder
        if asked[0]:
            return
        with recorder.work("sample"):
            one = gradients[index]
            if one is None or one.shape != mean.shape or not simple(one) or impossible(recorder.torch):
                return
            with Outside(recorder.torch):
                one, other = one.detach().double().reshape(-1), mean.double().reshape(-1)
                share = one.dot(other) / other.dot(other)
                off = (one - share * other).norm() / one.norm()
                told = to_host(recorder.torch, recorder.torch.where(share > 0, off, 1.0).reshape(1))
            head = (*recorder.head(), NAME, word)
            recorder.later(
                Pending([told], lambda read: read[0]),
                lambda values: [("scalar", (*head, values[0]))] if values[0] == values[0] else [],
            )


def _given(mean: Any) -> tuple[Any, int]:
    """The operation that gave a mean, before it was laid beside a deviation, and which of its results it is."""
    node, index = mean.grad_fn, mean.output_nr
    if node is not None and name_of(node) == "Expand":
        node, index = node.next_functions[0]
    return (None, 0) if node is None or name_of(node) == "AccumulateGrad" else (node, index)
