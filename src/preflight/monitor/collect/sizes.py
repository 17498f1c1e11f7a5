"""Losses of PyTorch's that compare element by element, and are given a target of another size than the prediction.

PyTorch warns of that, but not every program shows its warnings: filters hide them, and a block that collects them keeps
them to itself. So the sizes are compared here, in every call, and one that differs is noted as the warning would be.
"""

from __future__ import annotations

import sys
from typing import Any

from .functionals import watch
from .modes import Modes
from .patching import Patches, seen_by_warnings
from .recorder import Recorder

NAMES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


class Sizes:
    """Watches the losses of ``torch.nn.functional`` that stretch what they are given; their modules call these, too."""

    def __init__(self, recorder: Recorder, modes: Modes) -> None:
        """Take the recorder, and what notes warnings, each place once."""
        self.recorder = recorder
        self._modes = modes

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        if self.recorder.wants("warning"):
            for name in NAMES:
                watch(self.recorder, patches, name, self._look, always=True)

    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given: Any = kwargs.get("input", args[0] if args else None)
        target: Any = kwargs.get("target", args[1] if len(args) > 1 else None)
        if given is None or target is None or given.shape == target.shape:
            return
        caller = seen_by_warnings(sys._getframe(1))
        message = f"Using a target size ({target.shape}) that is different to the input size ({given.shape})."
        self._modes.warned(message, UserWarning, caller.f_code.co_filename, caller.f_lineno)
