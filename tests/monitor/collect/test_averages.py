"""How often an average was updated is told where torch's own class counts it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


AveragedModel = torch.optim.swa_utils.AveragedModel


class _Own(AveragedModel):
    """An average with an update of its own, which counts nothing."""

    def update_parameters(self, model: Any) -> None:
        with torch.no_grad():
            for own, other in zip(self.module.parameters(), model.parameters(), strict=True):
                own.lerp_(other, 0.1)


@pytest.mark.parametrize(("kind", "told"), [(AveragedModel, [0.0, 2.0]), (_Own, [])])
def test_an_average_that_is_called_tells_how_often_it_was_updated(kind: Any, told: list[float]) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    averaged = kind(model)
    with recorded() as kept:
        for updated in (False, True):
            for _ in range(2):
                model(torch.randn(4, 3)).sum().backward()
                optimizer.step()
                if updated:
                    averaged.update_parameters(model)
            with torch.no_grad():
                averaged(torch.randn(4, 3))
    assert [row["value"] for row in kept.table("scalar") if row["name"] == "averaged"] == told
