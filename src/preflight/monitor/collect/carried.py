"""Whether a model is given back what it gave out at its pass before, as recurrent networks are whose state is carried on."""

from __future__ import annotations

from typing import Any

from .digests import few
from .plain import Outside, impossible, simple
from .recorder import Recorder

NAME = "carried"
_MOST = 64  # numbers of each tensor that are compared
_Held = list[tuple[list[int], list[float]]]


class Carried:
    """Remembers some numbers of what models give out beside their first output; of tensors of the processor alone."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._left: dict[str, _Held] = {}  # by the name of a model

    def came(self, name: str, args: Any) -> bool:
        """Whether something beside the first input is what the model gave out the last time, for as many samples."""
        left = self._left.pop(name, [])
        given = few(args, self.recorder.torch.Tensor) if left else []
        if len(given) < 2 or not given[0].dim():
            return False
        samples = len(given[0])
        return any(one in left and samples in one[0] for one in self._held(given[1:]))

    def gave(self, name: str, output: Any) -> None:
        """Remember what a model gives out beside its first output."""
        told = few(output, self.recorder.torch.Tensor)[1:]
        if told:
            self._left[name] = self._held(told)

    def _held(self, tensors: list[Any]) -> _Held:
        torch = self.recorder.torch
        chosen = [one for one in tensors if one.dim() > 1 and one.device.type == "cpu" and simple(one) and one.numel()]
        if not chosen or impossible(torch):
            return []
        with Outside(torch):
            told = [([*one.shape], one.reshape(-1)[:_MOST].tolist()) for one in chosen if one.is_floating_point()]
        return [one for one in told if any(one[1])]
