"""Who lives? Hearts that beat in a store, and observers that name the ranks whose heart has stopped, in bounded time.

A collective that asks "is everybody there?" waits for ever exactly when somebody is not. Here nobody waits for anybody:
every rank counts up a number in the store, and whoever wants to know looks at the numbers, twice.

In training code::

    from preflight.investigate.liveness import beating

    with beating(warn_after=30) as heart:      # rank and store from torchrun's variables
        for step, batch in enumerate(batches):
            heart.step(step)
            ...

From a shell: ``preflight investigate triage --live --store HOST:PORT``.
"""

from __future__ import annotations

from preflight.investigate.liveness.heart import Heart, beating
from preflight.investigate.liveness.observer import observe
from preflight.investigate.liveness.roll import roll_call

__all__ = ["Heart", "beating", "observe", "roll_call"]
