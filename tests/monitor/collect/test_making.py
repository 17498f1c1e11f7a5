"""What optimizers and loaders are made of is told once."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.monitor.collect.recording import recorded  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


def joined(samples: list[Any]) -> Any:
    return torch.stack([one for (one,) in samples])


def test_switches_and_factors_of_groups_are_told() -> None:
    model = nn.Linear(4, 2)
    with recorded() as kept:
        groups = [{"params": [model.weight]}, {"params": [model.bias], "betas": (0.5, 0.9), "amsgrad": True}]
        optimizer = torch.optim.Adam(groups, lr=0.1)
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    (made,) = kept.calls("optimizer.new")
    assert made["args"]["options"] == [{"on": [], "betas": [0.9, 0.999]}, {"on": ["amsgrad"], "betas": [0.5, 0.9]}]


@pytest.mark.parametrize(("given", "told"), [(None, "default_collate"), (joined, "joined")])
def test_what_puts_batches_together_is_told(given: Any, told: str) -> None:
    with recorded() as kept:
        for _ in DataLoader(TensorDataset(torch.randn(6, 4)), 2, collate_fn=given):
            pass
    (made,) = kept.calls("loader.new")
    assert (made["args"]["collate"], made["args"]["batches"]) == (told, "BatchSampler")


def test_a_loader_is_told_with_the_names_that_the_program_has_for_it() -> None:
    with recorded() as kept:
        valid_loader = DataLoader(TensorDataset(torch.randn(6, 4)), 2)
        same = valid_loader
        for _ in same:
            pass
    (made,) = kept.calls("loader.new")
    assert {"valid_loader", "same"} <= set(made["args"]["names"])
