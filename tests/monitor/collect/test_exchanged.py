"""Gradients are looked at before the program exchanges them by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A world of one process."""
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def moments(kept: Kept) -> list[tuple[int, int]]:
    """The iterations of looks before an exchange, with how many gradients each tells of."""
    return [(row["i"], len(row["norm"])) for row in kept.table("state") if row["moment"] == "before_exchange"]


def train(*, exchange: bool) -> Kept:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded(detail_first=2, detail_every=0) as kept:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).sum().backward()
            for one in model.parameters() if exchange else ():
                torch.distributed.all_reduce(one.grad)
            optimizer.step()
            torch.distributed.all_reduce(torch.zeros(1))  # a number that is logged
    return kept


@pytest.mark.usefixtures("alone")
def test_they_are_looked_at_once_between_a_backward_pass_and_a_step_in_detail() -> None:
    assert moments(train(exchange=True)) == [(0, 2), (1, 2)]
    assert moments(train(exchange=False)) == []
