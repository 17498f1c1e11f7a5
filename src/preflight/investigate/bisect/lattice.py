"""Which numbers of GPUs a run can have: whole nodes, whole model copies, a batch that divides."""

from __future__ import annotations

import msgspec

from preflight.errors import UsageError


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of GPUs has to fit.

    Attributes:
        gpus_per_node: GPUs of a node; below one node any number that fits the rest, above it whole nodes.
        tensor, pipeline, context: Degrees that make up one copy of the model.
        global_batch: Samples of an update that stays the same over sizes; None where it grows with the size.
        micro_batch: Samples of a micro-batch.
    """

    gpus_per_node: int = 8
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    global_batch: int | None = None
    micro_batch: int = 1

    @property
    def copy(self) -> int:
        """GPUs of one copy of the model."""
        return self.tensor * self.pipeline * self.context

    def nodes(self, gpus: int) -> int:
        """Nodes of a number of GPUs."""
        return -(-gpus // self.gpus_per_node)

    def local(self, gpus: int) -> int:
        """GPUs on each node."""
        return min(gpus, self.gpus_per_node)

    def why_not(self, gpus: int) -> str | None:
        """Return why a run cannot have this many GPUs, or None."""
        if gpus < 1:
            return "a run has at least one GPU"
        if gpus > self.gpus_per_node and gpus % self.gpus_per_node:
            return f"{gpus} GPUs are not whole nodes of {self.gpus_per_node}"
        if gpus % self.copy:
            degrees = f"{self.tensor} x {self.pipeline}" + (f" x {self.context}" if self.context > 1 else "")
            return f"{gpus} does not divide by a model copy of {degrees} = {self.copy} GPUs"
        share = gpus // self.copy * self.micro_batch
        if self.global_batch is not None and self.global_batch % share:
            return f"a global batch of {self.global_batch} does not divide by {gpus // self.copy} copies x {self.micro_batch}"
        return None


def sizes_between(works: int, fails: int, shape: Shape) -> list[int]:
    """Return the numbers of GPUs that are possible from one that works to one that fails, in that order.

    Raises:
        UsageError: One of the ends is not possible; the hint names the nearest that is.
    """
    low, high = sorted((works, fails))
    for end in (works, fails):
        reason = shape.why_not(end)
        if reason is not None:
            raise UsageError(f"{end} GPUs are not possible: {reason}", _nearest(end, shape))
    sizes = [size for size in range(low, high + 1) if shape.why_not(size) is None]
    return sizes if works <= fails else sizes[::-1]


def _nearest(end: int, shape: Shape) -> str | None:
    for distance in range(1, 4096):
        near = [size for size in (end - distance, end + distance) if size > 0 and shape.why_not(size) is None]
        if near:
            return f"possible: {' or '.join(map(str, near))}"
    return None


__all__ = ["Shape", "sizes_between"]
