"""Shapes that are written with a name for every axis."""

from __future__ import annotations

import pytest

from preflight.check.forward.named_axes import rearranged


@pytest.mark.parametrize(
    ("shape", "pattern", "sizes", "behind"),
    [
        ((2, 12, 16), "b t (h d) -> b h t d", {"h": 4}, (2, 4, 12, 4)),
        ((2, 3, 8, 6), "b c (h p) (w q) -> b (h w) (p q c)", {"p": 2, "q": 3}, (2, 8, 18)),
        ((4, 5), "b n -> b 1 n", {}, (4, 1, 5)),
        ((2, 12, 16), "b t (h d) -> b h t d", {}, None),
        ((2, 12, 16), "b t (h d) -> b h t d", {"h": 5}, None),
        ((2, 12), "b t c -> b c t", {}, None),
        ((2, 12, 16), "b ... c -> b c", {}, None),
        ((2, 12), "b t -> b t e", {}, None),
    ],
)
def test_the_shape_behind_a_pattern(
    shape: tuple[int, ...], pattern: str, sizes: dict[str, int], behind: tuple[int, ...] | None
) -> None:
    assert rearranged(shape, pattern, sizes) == behind
