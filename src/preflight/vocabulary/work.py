"""The operators of a step: kinds of them with their arithmetic and traffic, and the order in which they ran."""

from __future__ import annotations

import msgspec


class Kind(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one operator does to tensors of certain shapes.

    Attributes:
        phase: ``forward``, ``backward``, ``recompute``, ``optimizer``, ``eval`` or ``init``.
        dtype: Type of the numbers, ``tf32`` for fp32 products on tensor cores.
        kernels: Launches; 0 for views.
        flop: Floating-point operations of products, convolutions and attention; None for others.
        bytes: Bytes read and written, or sent by a collective.
        product: A product's batch, rows, columns and depth.
        shape: Shape of the first result. table: Rows of the table that an embedding looks up.
        ranks: Number of ranks of a collective, else None.
        fused: A compiler makes it a part of a larger kernel. waits: The host waits until it is done.
    """

    operator: str
    phase: str
    dtype: str = ""
    kernels: int = 1
    flop: float | None = None
    bytes: int = 0
    product: tuple[int, int, int, int] | None = None
    shape: tuple[int, ...] = ()
    table: int | None = None
    ranks: int | None = None
    fused: bool = False
    waits: bool = False


class Work(msgspec.Struct, frozen=True, omit_defaults=True):
    """The operators of one optimizer step: the kinds, the kind of every operator in order, and its backward passes."""

    kinds: tuple[Kind, ...] = ()
    order: tuple[int, ...] = ()
    rounds: int = 0
