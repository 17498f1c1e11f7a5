"""What Accelerate says of an accumulation of gradients that is going on; it keeps that in a dictionary for the process."""

from __future__ import annotations

import sys
from typing import Any

from .graph import name_of

_MOST_FRAMES = 16
_MOST_NODES = 40
_SUMS = ("Add", "Sub", "Rsub", "Neg", "View", "Squeeze", "Unsqueeze", "ToCopy")
"""Operations that leave a loss divided, where all that goes into them is."""


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
    """Whether the loss of a backward pass is Accelerate's, which divides it, or is itself a division or a product.

    A sum is one where each of its terms is, and so may be what a function of the program's own or the compiler's gave.
    """
    if _ends_divided(loss.grad_fn):
        return True
    frame = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame.f_back is None:
            break
        frame = frame.f_back
        if frame.f_code.co_name == "backward" and frame.f_globals.get("__name__") == "accelerate.accelerator":
            return True
    return False


def _ends_divided(root: Any) -> bool:
    nodes, known = [root], {id(root)}
    for count, node in enumerate(nodes):  # grows as it goes
        name = name_of(node)
        if name in ("Div", "Mul") or not str(node.name())[-1:].isdigit():  # torch numbers its own operations
            continue
        if name not in _SUMS or count >= _MOST_NODES:
            return False
        for below, _ in node.next_functions:
            if below is not None and id(below) not in known:
                known.add(id(below))
                nodes.append(below)
    return True
