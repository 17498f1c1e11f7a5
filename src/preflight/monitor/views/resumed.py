"""Whether a run goes on where an earlier one stopped: its first iterations are not those of the training."""

from __future__ import annotations

from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window


def is_resumed(window: Window) -> bool:
    """Whether an optimizer was given a state with something in it before the first backward pass.

    A step before that pass tells nothing: to load a distributed checkpoint, one is made with gradients of zeros.
    The windows of a rank must be asked for in order, at least those with a backward pass or a ``load_state_dict``.
    """
    run = window.run
    if run.resumed is None:
        first = min((call.q for call in window.named("backward")), default=None)
        for call in window.named("load_state_dict"):
            loaded = optimizer_number(call) >= 0 and (call.args or {}).get("state")
            if loaded and (first is None or call.q < first):
                run.resumed = True
                return True
        if first is not None:
            run.resumed = False
    return bool(run.resumed)
