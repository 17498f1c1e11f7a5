"""Whether the targets of a loss were drawn after the model's answer, as the recorder tells it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch

Target = Callable[[Any], Any]


def _told(
    target: Target, loss: Any, shape: tuple[int, ...] = (16, 4), before: Target | None = None, scale: float = 2.0
) -> list[float]:
    torch.manual_seed(0)
    net = torch.nn.Linear(shape[-1], shape[-1])
    with recorded() as kept:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            x = torch.randn(*shape) * scale
            held = before(x) if before is not None else None
            answer = net(x)
            optimizer.zero_grad()
            loss(answer, target(x) if held is None else held).backward()
            optimizer.step()
    return [row["value"] for row in kept.table("scalar") if row["name"] == "targets.fresh"]


@pytest.mark.parametrize("loss", [torch.nn.functional.mse_loss, torch.nn.functional.smooth_l1_loss])
@pytest.mark.parametrize("shape", [(2, 3), (3, 7), (16, 4), (300, 11)])
def test_targets_that_are_drawn_after_the_answer_are_told(loss: Any, shape: tuple[int, ...]) -> None:
    assert _told(torch.randn_like, loss, shape) == [1.0, 1.0]
    assert _told(lambda x: torch.randn(x.shape), loss, shape) == [1.0, 1.0]


def test_targets_that_were_drawn_before_or_made_of_something_are_not() -> None:
    loss = torch.nn.functional.mse_loss
    assert _told(torch.randn_like, loss, before=torch.randn_like) == [0.0, 0.0]
    assert _told(lambda x: x + torch.randn_like(x), loss) == [0.0, 0.0]
    assert _told(torch.rand_like, loss) == [0.0, 0.0]


def test_a_program_that_draws_its_input_too_only_tries_something_out() -> None:
    loss = torch.nn.functional.mse_loss
    assert _told(torch.randn_like, loss, scale=1.0) == [1.0]  # of the first pass nothing is known


def test_what_is_compared_with_draws_nothing_of_the_programs() -> None:
    def numbers(watched: bool) -> Any:
        torch.manual_seed(3)
        net = torch.nn.Linear(4, 4)
        if not watched:
            net(torch.ones(8, 4))
            return torch.randn(6), torch.randn(6)
        with recorded():
            first = torch.randn(6) if net(torch.ones(8, 4)) is not None else None
            torch.nn.functional.mse_loss(net(torch.ones(8, 4)), torch.zeros(8, 4)).backward()
            return first, torch.randn(6)

    for one, other in zip(numbers(True), numbers(False), strict=True):
        assert torch.equal(one, other)
