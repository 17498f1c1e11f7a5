"""What the recorder tells of averages in half precision."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = pytest.mark.torch


def averaged(kind: Any, decay: float, called: bool = True, steps: int = 16) -> Kept:
    """Train a network whose average of a kind keeps a share of itself in each step."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    average = copy.deepcopy(net).requires_grad_(False).to(kind)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    with recorded() as kept:
        for _ in range(steps):
            x = torch.randn(16, 8)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), x[:, :2]).backward()
            optimizer.step()
            with torch.no_grad():
                for one, own in zip(average.parameters(), net.parameters(), strict=True):
                    one.mul_(decay).add_(own.to(kind), alpha=1 - decay)
                if called:
                    average(x.to(kind))
    return kept


def moved(kept: Kept) -> list[float]:
    return [row["value"] for row in kept.table("scalar") if row["name"] == "average.moved"]


@pytest.mark.parametrize("called", [True, False])
def test_an_average_in_half_precision_with_a_slow_decay_stays(called: bool) -> None:
    found = moved(averaged(torch.bfloat16, 0.999, called))
    assert len(found) >= 3
    assert set(found) == {0.0}


def test_one_with_a_fast_decay_moves() -> None:
    found = moved(averaged(torch.bfloat16, 0.9))
    assert len(found) >= 3
    assert min(found) > 0.5


@pytest.mark.parametrize(("kind", "decay"), [(torch.float32, 0.999), (torch.bfloat16, 1.0)])
def test_nothing_is_told_of_one_in_float32_nor_of_a_copy_that_rests(kind: Any, decay: float) -> None:
    assert moved(averaged(kind, decay)) == []
