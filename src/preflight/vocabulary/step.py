"""Step words: where the seconds of an optimizer step go."""

from __future__ import annotations

import msgspec


class StepBreakdown(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one optimizer step by cause; the parts add up to the step.

    Attributes:
        compute: Kernels of forward, backward and recomputation on the busiest pipeline stage.
        exposed_communication: Collectives and transfers that nothing hides.
        bubble: Waiting for other pipeline stages.
        optimizer: The optimizer's step, clipping and zeroing.
        data: Waiting for the loader.
        host: The GPU waiting for the host to launch kernels.
    """

    compute: float = 0.0
    exposed_communication: float = 0.0
    bubble: float = 0.0
    optimizer: float = 0.0
    data: float = 0.0
    host: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all parts, seconds."""
        total: float = sum(getattr(self, field) for field in self.__struct_fields__)
        return total
