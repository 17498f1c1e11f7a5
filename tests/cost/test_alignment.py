"""Products whose rows are not aligned."""

from __future__ import annotations

import pytest

from preflight.cost.alignment import aligned_share


@pytest.mark.parametrize(
    ("architecture", "element", "sides", "share"),
    [
        ("hopper", 2, (50257, 768), 0.16),
        ("hopper", 2, (30522, 768), 0.35),
        ("hopper", 2, (50260, 768), 0.6),
        ("hopper", 2, (50304, 768), 1.0),
        ("hopper", 4, (50257, 768), 0.35),
        ("ampere", 2, (50257, 768), 0.5),
        ("volta", 2, (50257, 768), 1.0),
        ("cdna3", 2, (50257, 768), 1.0),
    ],
)
def test_the_largest_power_of_two_that_divides_every_side_decides(
    architecture: str, element: int, sides: tuple[int, ...], share: float
) -> None:
    assert aligned_share(architecture, element, *sides) == share
