"""Weights in half precision beside the rates that are to change them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


def too_large(
    kind: Any, rate: float, make: Any = None, warmup: bool = False, by_hand: float | None = None
) -> list[float]:
    """Train a network in a precision; return the shares of the weights of its matrices that are too large for the rate."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16)).to(kind)
    with recorded() as kept:
        optimizer = (make or torch.optim.AdamW)(net.parameters(), lr=rate)
        if warmup:
            torch.optim.lr_scheduler.LinearLR(optimizer, 1e-3, 1.0, 100)
        for number in range(3):
            for group in optimizer.param_groups if by_hand else ():
                group["lr"] = by_hand * (number + 1)
            optimizer.zero_grad()
            net(torch.randn(4, 16).to(kind)).square().mean().backward()
            optimizer.step()
    return [row["value"] for row in kept.table("scalar") if row["name"] == "weights.too_large"]


def test_a_small_rate_moves_hardly_any_weight_in_half_precision() -> None:
    assert all(share > 0.95 for share in too_large(torch.bfloat16, 1e-5))
    assert len(too_large(torch.bfloat16, 1e-5)) == 2


def test_a_usual_rate_moves_most() -> None:
    assert all(share < 0.5 for share in too_large(torch.bfloat16, 1e-3))


def test_a_rate_that_is_on_its_way_up_is_taken_for_what_it_comes_to() -> None:
    assert all(share < 0.5 for share in too_large(torch.bfloat16, 1e-3, warmup=True))


@pytest.mark.parametrize("given", [1e-3, 0.0])
def test_a_rate_that_is_set_by_hand_may_be_on_its_way_up(given: float) -> None:
    assert too_large(torch.bfloat16, given, by_hand=1e-6) == []


def test_full_precision_and_updates_of_another_size_are_not_looked_at() -> None:
    assert too_large(torch.float32, 1e-5) == []
    assert too_large(torch.bfloat16, 1e-5, torch.optim.SGD) == []
