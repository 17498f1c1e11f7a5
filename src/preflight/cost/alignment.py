"""What it costs a product on tensor cores that its rows do not begin at multiples of 16 bytes."""

from __future__ import annotations

import math

# Share of the rate of an aligned product by the bytes to which rows are aligned, 16 and more being 1. Hopper fetches aligned
# blocks with a unit of their own: on an H200 8,192 rows of 768 times 50,257 columns run at 124 of 792 TFLOP/s in bf16 and
# at 119 of 340 in TF32 (benchmarks/gpu/rates.toml); the share for 8 bytes lies between its neighbours. On an A100 nanoGPT
# became 25 % faster with 50,304 words in place of 50,257, which is 0.5 of the rate for its output layer.
_SHARES = {
    "hopper": {2: 0.16, 4: 0.35, 8: 0.6},
    "blackwell": {2: 0.16, 4: 0.35, 8: 0.6},
    "ampere": {2: 0.5, 4: 0.7, 8: 0.85},
    "ada": {2: 0.5, 4: 0.7, 8: 0.85},
}


def aligned_share(architecture: str, element: int, *sides: int) -> float:
    """Return the share of the rate that the alignment of a product's rows allows.

    Args:
        architecture: Of the GPU.
        element: Bytes of an element.
        sides: Sizes of the matrices along which their elements lie beside each other.
    """
    aligned = element * math.gcd(*sides, 16 // element)
    return _SHARES.get(architecture, {}).get(aligned, 1.0)
