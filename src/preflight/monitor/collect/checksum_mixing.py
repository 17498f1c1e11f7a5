"""The bijection of 64 bits through which every number goes that counts for a checksum, and what is made of the images."""

from __future__ import annotations

from typing import Any

_MASK = (1 << 64) - 1
_HALF = 1 << 63


def mix(torch: Any, numbers: Any, keys: Any) -> Any:
    """Send each number through a bijection of 64 bits that its key chooses.

    Multiplications carry changes to the upper half, exclusive ors of that half bring them down into the lower one.
    """
    numbers = numbers.bitwise_xor(keys)
    # A shift to the right would repeat the sign and need a mask; as halves it is one operation.
    halves = numbers.view(torch.int32)
    lower, upper = halves[..., 0::2], halves[..., 1::2]
    lower.bitwise_xor_(upper)
    numbers.mul_(keys)
    lower.bitwise_xor_(upper)
    numbers.mul_(-0x40A7B892E31B1A47)
    lower.bitwise_xor_(upper)
    return numbers


def numbers_of(torch: Any, picked: Any, lengths: Any) -> Any:
    """Make the number of each tensor from the running sums where its segments end and where they begin."""
    ends, begins = picked.view(2, 5, -1)
    sums = ends - begins
    strong = sums[2:].sum(0).add_(lengths)
    strong = strong.bitwise_xor_((strong >> 31).bitwise_and_((1 << 33) - 1)).mul_(signed(0xBF58476D1CE4E5B9))
    strong = (strong >> 14).bitwise_and_((1 << 50) - 1) << 13
    return strong.bitwise_or_((sums[0] + sums[1]).remainder_(8191))


def number_of(strong: int, plain: int, size: int) -> int:
    """Make the number of a tensor from the sum of the images, that of its words, and its length in bytes."""
    strong = strong + size * 0x9E3779B97F4A7C15 & _MASK
    strong = (strong ^ strong >> 31) * 0xBF58476D1CE4E5B9
    return (strong >> 14 & (1 << 50) - 1) << 13 | plain % 8191


def signed(number: int) -> int:
    """Return the integer with a sign that has the same 64 bits."""
    return (number + _HALF & _MASK) - _HALF
