"""How long kernels take: matrix products by their shape, attention, and what only moves bytes."""

from __future__ import annotations

from preflight.cost.machine import Machine
from preflight.cost.numeric import ceiling, larger, root, smaller

# Tiles of a product (rows, columns) and the share of the rate that each reaches: a smaller tile loads more bytes for
# every FLOP ("Matrix Multiplication Background User's Guide", NVIDIA DU-09799-001).
_TILES = ((256.0, 128.0, 1.0), (128.0, 128.0, 0.93), (64.0, 64.0, 0.65))
# Without tensor cores an operation takes eight times as long and an element has twice the bytes: four times as many loads
# hide behind it, so that half the tile's sides (64 x 64, what 256 x 256 is to tensor cores) lose nothing.
_PLAIN_TILES = ((128.0, 128.0, 1.0), (128.0, 64.0, 1.0), (64.0, 64.0, 1.0))
# Keys that a flash kernel's start and end are worth: forward rates of FlashAttention-2 on an H100 at 512, 1k, 2k ... 16k keys
# are 329, 390, 434, 458, 471, 477 TFLOP/s, those of FlashAttention-3 430, 517, 566, 590, 614, 621 (pytorch/benchmark pull
# request 2391): both keys / (keys + 230) of what they approach.
_RAMP = 230.0
# What a last wave that is not full costs: less than its share, since its tiles run at a higher clock and split sums.
_QUANT = 0.75


def matmul_seconds(
    machine: Machine, rows: float, columns: float, inner: float, element: float = 2.0, moved: float | None = None
) -> float:
    """Return the seconds of a (rows x inner) by (inner x columns) product.

    The product is cut into tiles, and tiles are dealt out in waves over the multiprocessors: the last wave costs as
    much as a full one. The library takes the tile that is quickest.

    Args:
        machine: The rates.
        rows: Rows of the result.
        columns: Columns of the result.
        inner: The length of the sums.
        element: Bytes of an element.
        moved: Elements that are read and written, where they are not those of the three matrices.
    """
    work = 2.0 * rows * columns * (inner + machine.fill) / machine.matmul
    # What a tile costs in the place of its own share, to the power of 4/3: the cheapest of the powers is the power of the
    # cheapest, and two roots are quicker than a power of 3/4.
    tiles = _TILES if machine.tensor_cores else _PLAIN_TILES
    across = {wide: ceiling(columns * (1 / wide)) for wide in {wide for _, wide, _ in tiles}}
    costs = [
        ceiling(ceiling(rows * (1 / high)) * across[wide] / machine.sms) * (high * wide / reached ** (1 / _QUANT))
        for high, wide, reached in tiles
    ]
    half = root(rows * columns / (machine.sms * larger(smaller(*costs), 1.0)))
    share = half * root(half)
    if moved is None:
        moved = rows * inner + inner * columns + rows * columns
    return larger(work / larger(share, 1e-3), element * moved / machine.bandwidth) + machine.coefficients.kernel


def flash_seconds(machine: Machine, flop: float, parallel_rows: float, seen: float, wasted: float = 0.0) -> float:
    """Return the seconds of a flash attention forward pass.

    Args:
        machine: The rates.
        flop: Its operations, the causal half counted once.
        parallel_rows: Heads x samples x rows of queries, of which a multiprocessor takes 128 at a time.
        seen: Keys that a query sees on average.
        wasted: Keys beside them that are multiplied and masked.
    """
    waves = parallel_rows / 128.0 / machine.sms
    ramp = (seen + wasted + _RAMP) / larger(seen, 1.0)
    return flop / machine.attention * ramp * (ceiling(waves) / larger(waves, 1e-6)) + machine.coefficients.kernel


def traffic_seconds(machine: Machine, size: float, kernels: float) -> float:
    """Return the seconds of ``kernels`` memory-bound kernels that move ``size`` bytes together."""
    return size / machine.bandwidth + kernels * machine.coefficients.kernel
