"""What Accelerate says of an accumulation of gradients that is going on; it keeps that in a dictionary for the process."""

from __future__ import annotations

import sys
from typing import Any

from .graph import name_of

_MOST_FRAMES = 16


def amidst() -> bool | None:
    """Whether gradients are still being accumulated; None where the program set up no accumulation of several passes."""
    module = sys.modules.get("accelerate.state")
    shared = getattr(getattr(module, "GradientState", None), "_shared_state", None)
    if not shared:
        return None
    settings = shared.get("plugin_kwargs")
    if not isinstance(settings, dict) or settings.get("num_steps", 1) < 2 or "sync_gradients" not in shared:
        return None
    return not shared["sync_gradients"]


def divided(loss: Any) -> bool:
    """Whether the loss of a backward pass is Accelerate's, which divides it, or ends in a division or product anyway."""
    if name_of(loss.grad_fn) in ("Div", "Mul"):
        return True
    frame = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame.f_back is None:
            break
        frame = frame.f_back
        if frame.f_code.co_name == "backward" and frame.f_globals.get("__name__") == "accelerate.accelerator":
            return True
    return False
