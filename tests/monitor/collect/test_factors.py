"""Numbers that a person wrote are told from those that are worked out of sizes or of data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from preflight.monitor.collect import factors  # noqa: E402
from preflight.monitor.collect.graph import name_of  # noqa: E402
from preflight.monitor.collect.plain import plain_types  # noqa: E402

BATCH, WIDTH = 12, 32


def told(make: Callable[[Any], Any]) -> float | None:
    """The number that is told of the last operation, of a result of twelve rows and 32 columns."""
    plain_types(torch)
    node = make(nn.Linear(4, WIDTH)(torch.randn(BATCH, 4))).grad_fn
    number = factors.of(node, name_of(node))
    return None if number is None or factors.explained(number, {(BATCH, WIDTH), (BATCH, 4)}) else number


def test_what_a_person_wrote_is_told() -> None:
    assert told(lambda x: x * 0.07) == 0.07
    assert told(lambda x: 0.3 * x) == 0.3
    assert told(lambda x: x / 0.07) == 0.07
    assert told(lambda x: x * -0.05) == -0.05


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x / WIDTH**0.5,
        lambda x: x * WIDTH**-0.5,
        lambda x: x * (1 / BATCH),
        lambda x: x * (1.0 / (BATCH * WIDTH)),
        lambda x: x * 0.25,
        lambda x: x * 2,
        lambda x: x * -1.0,
        lambda x: x / x.shape[0],
        lambda x: x * torch.tensor(0.3),
        lambda x: x * float(torch.tensor(0.3)),
        lambda x: x * x.detach(),
        lambda x: x * x.mean(),
    ],
)
def test_what_sizes_or_data_give_is_not(make: Callable[[Any], Any]) -> None:
    assert told(make) is None


def of_loss(make: Callable[[Any], Any], last: bool = True) -> float | None:
    plain_types(torch)
    node = make(nn.Linear(4, WIDTH)(torch.randn(BATCH, 4)).mean()).grad_fn
    return factors.of(node, name_of(node), last)


def test_how_many_batches_or_processes_a_loss_is_of_is_a_setting() -> None:
    assert of_loss(lambda loss: loss / 5.0) is None
    assert of_loss(lambda loss: loss * 7.0) is None
    assert of_loss(lambda loss: loss * (1 / 5)) is None
    assert of_loss(lambda loss: loss / 5.0, last=False) is None
    assert of_loss(lambda loss: loss * 0.2, last=False) == 0.2, "the weight of a term"
    assert of_loss(lambda loss: loss * 0.3) == 0.3
    assert of_loss(lambda loss: loss * 1.5) == 1.5
    assert told(lambda x: x / 7.0) == 7.0, "what is no loss is not divided by how many there are"
