"""What Accelerate says of an accumulation of gradients that is going on; it keeps that in a dictionary for the process."""

from __future__ import annotations

import sys


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
