"""What training scripts use of mpi4py, where it is not installed: one process, alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Comm:
    """A communicator of one process: what it sends is what it gets."""

    rank, size = 0, 1

    def Get_rank(self) -> int:
        """Return the rank."""
        return 0

    def Get_size(self) -> int:
        """Return the number of processes."""
        return 1

    def bcast(self, obj: Any = None, root: int = 0) -> Any:
        """Return the object."""
        return obj

    allreduce = reduce = bcast

    def gather(self, sendobj: Any, root: int = 0) -> list[Any]:
        """Return the objects of all."""
        return [sendobj]

    allgather = gather

    def scatter(self, sendobj: Any, root: int = 0) -> Any:
        """Return the part of this process."""
        return sendobj[0]

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Any = None) -> None:
        """Copy."""
        recvbuf[...] = sendbuf

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """There is nobody to send to."""

    def barrier(self) -> None:
        """There is nobody to wait for."""

    Barrier = barrier

    def Split(self, *_: Any, **__: Any) -> Comm:
        """Return itself."""
        return self

    Split_type = Split


MPI = SimpleNamespace(
    COMM_WORLD=Comm(), COMM_SELF=Comm(), SUM="sum", MAX="max", MIN="min", COMM_TYPE_SHARED=0,
    Finalize=lambda: None, Is_initialized=lambda: True,
)  # fmt: skip
