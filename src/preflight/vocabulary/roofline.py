"""Roofline words: how much operators compute for each byte they move, and how fast, beneath what a GPU can do at most."""

from __future__ import annotations

import msgspec


class RoofPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Operators of one kind in one optimizer step, on one GPU.

    Attributes:
        operator: What they are.
        phase: ``forward``, ``backward``, ``recompute`` or ``optimizer``.
        dtype: The type they compute in, a key of ``Roofline.peaks``.
        size: The sizes by which they differ from others of that name; empty where there are none.
        calls: How many there are.
        flop: Floating-point operations of all of them. bytes: Bytes read and written. seconds: Estimated time.
    """

    operator: str
    phase: str
    dtype: str
    calls: float
    flop: float
    bytes: float
    seconds: float
    size: str = ""


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """The operators of a step beneath the two roofs of a GPU: memory bandwidth and arithmetic.

    Attributes:
        gpu: The name of the GPU.
        peaks: FLOP per second that it promises, by the types that occur.
        bandwidth: Bytes per second that its memory promises.
        points: The operators whose operations are counted, those that take longest first.
        left_out_seconds: The time of further such operators.
        moving_seconds: The time of kernels that move bytes and whose operations are not counted.
        basis: What the numbers rest on.
    """

    gpu: str
    peaks: dict[str, float]
    bandwidth: float
    points: tuple[RoofPoint, ...]
    left_out_seconds: float = 0.0
    moving_seconds: float = 0.0
    basis: str = ""
