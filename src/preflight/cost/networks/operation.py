"""The words of a tape: tensors, what an operation computes, and the operation."""

from __future__ import annotations

import msgspec


class Tensor(msgspec.Struct, frozen=True):
    """A tensor of one sample: rows (pixels, tokens) and columns (channels), bytes of an element, where it lies.

    ``key`` names the value, ``storage`` the memory (views share it); storage -1 are parameters. ``graded`` says whether a
    gradient flows back to it.
    """

    rows: float
    columns: float
    width: float
    key: int
    storage: int
    graded: bool

    @property
    def elements(self) -> float:
        """Elements."""
        return self.rows * self.columns

    @property
    def size(self) -> float:
        """Bytes."""
        return self.rows * self.columns * self.width


class Product(msgspec.Struct, frozen=True):
    """A matrix product: rows of a sample, columns, the length of the sums, and the elements of the input as it lies there."""

    rows: float
    columns: float
    inner: float
    gathered: float
    graded: bool = True


class Attention(msgspec.Struct, frozen=True):
    """An attention of one sample: heads, width of a head, queries and keys."""

    heads: float
    dim: float
    queries: float
    keys: float


class Op(msgspec.Struct):
    """One operation.

    Attributes:
        inputs: What a gradient flows back to. output: Its result.
        saved: Storages that it keeps for its backward pass. used: Storages that it reads.
        weights: Trained parameters whose gradient it leaves.
        passes: Whether the gradient of the result is the gradient of the inputs, so that nothing is allocated.
        temporary: Bytes that its backward pass allocates beside the gradients.
        block: The block that it belongs to, -1 outside.
        product, attention: Arithmetic, where there is any.
        ahead, behind: Bytes that its memory-bound kernels move forward and backward.
        kernels: Memory-bound kernels of the forward pass. kernels_behind: Of the backward pass.
    """

    inputs: tuple[Tensor, ...]
    output: Tensor
    saved: tuple[int, ...]
    used: tuple[int, ...]
    block: int
    weights: float = 0.0
    passes: bool = False
    temporary: float = 0.0
    product: Product | None = None
    attention: Attention | None = None
    ahead: float = 0.0
    behind: float = 0.0
    kernels: float = 1.0
    kernels_behind: float = 1.0
