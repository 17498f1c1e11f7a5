"""Values that a device is still computing: copied to the host behind its back, read when they have arrived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .plain import capturing, loaded

Finish = Callable[[list[list[Any]]], list[Any]]
"""Makes the values from what was copied, one list of numbers per copy."""


class Pending:
    """One value per tensor asked for: there at once on the CPU, later on a device.

    What is there is turned into numbers when it is first asked for, on whatever thread that happens.

    It holds small copies of results, never a tensor of the program, and lets go of those too once they are read.
    """

    __slots__ = ("_finish", "_reads", "_values")

    def __init__(self, reads: Sequence[tuple[Any, Any]], finish: Finish) -> None:
        """Take what to read.

        Args:
            reads: Tensors on the host with the event that says when each is filled, or None where it is already.
            finish: Makes the values from the numbers read, in the order of `reads`.
        """
        self._reads = list(reads)
        self._finish: Finish | None = finish
        self._values: list[Any] | None = None

    @classmethod
    def known(cls, values: list[Any]) -> Pending:
        """Return values that are there already.

        Args:
            values: The values.
        """
        made = cls([], lambda read: values)
        made._values = values
        return made

    @classmethod
    def joined(cls, parts: Sequence[Pending]) -> Pending:
        """Return the values of several as one list of them, there when all are.

        Args:
            parts: What to wait for; they are read through the result alone.
        """
        counts = [len(part._reads) for part in parts]
        finishes = [part._finish for part in parts]

        def finish(read: list[list[Any]]) -> list[Any]:
            rest = iter(read)
            return [
                done([next(rest) for _ in range(count)]) if done else []
                for count, done in zip(counts, finishes, strict=True)
            ]

        return cls([one for part in parts for one in part._reads], finish)

    def then(self, make: Callable[[list[Any]], list[Any]]) -> Pending:
        """Return what is made of the values, there when they are.

        Args:
            make: Makes it; the values are read through the result alone.
        """
        finish = self._finish
        assert finish is not None
        return Pending(self._reads, lambda read: make(finish(read)))

    def _read(self) -> None:
        assert self._finish is not None
        self._values = self._finish([tensor.tolist() for tensor, _ in self._reads] if self._reads else [])
        self._reads = []
        self._finish = None

    def ready(self) -> bool:
        """Say whether everything has arrived; never waits.

        Ask on a thread that is not capturing a CUDA graph: asking an event would end the capture.
        While the asking thread itself is capturing the answer is no.
        """
        if not self._reads:
            return True  # as nearly all that is asked for on a CPU
        events = [event for _, event in self._reads if event is not None]
        return not events or (not capturing(loaded()) and all(event.query() for event in events))

    def values(self, wait: bool = False) -> list[Any] | None:
        """Return the values, or None while they are under way.

        Args:
            wait: Wait for them instead; still None while the thread captures a CUDA graph, where nothing may wait.
        """
        if self._values is None:
            if not self._reads or self.ready():
                self._read()
            elif wait and not capturing(loaded()):
                for _, event in self._reads:
                    if event is not None:
                        event.synchronize()
                self._read()
        return self._values


def to_host(torch: Any, result: Any) -> tuple[Any, Any]:
    """Start to copy a small result to the host; return the tensor there and the event that fills it, or None.

    Args:
        torch: The torch that is loaded.
        result: A tensor on any device, made on its current stream.
    """
    if result.device.type != "cuda":
        # Nothing to wait for on the CPU; elsewhere this reads, and therefore waits, at once.
        return result.cpu(), None
    with torch.cuda.device(result.device):
        host = torch.empty(result.shape, dtype=result.dtype, device="cpu", pin_memory=True)
        host.copy_(result, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
    return host, event
