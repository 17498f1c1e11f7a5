"""What the watchers of a run ask of its GPU: the virtual one, or the CPU that a probe runs on in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from preflight.dryrun.virtual.engine.work import Work
    from preflight.dryrun.virtual.memory.ledger import Ledger
    from preflight.dryrun.virtual.progress import Progress


class Device(Protocol):
    """A GPU, as loops, phases and ``torch.cuda`` see it.

    Attributes:
        progress: Where the run is.
        ledger: What its memory holds.
        work: Its operators in order.
        devices: Number of GPUs that the process sees.
        index: The number by which the process calls this one.
        operators: How many operators it has run.
    """

    progress: Progress
    ledger: Ledger
    work: Work
    devices: int
    index: int
    operators: int

    def synchronise(self, kind: str, size: int) -> None:
        """Note that the host waits, for so many bytes."""
