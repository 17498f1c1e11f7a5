"""Along which axis a layer adds its table of positions is told of its first passes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.collect.encodings import NAME  # noqa: E402

pytestmark = pytest.mark.torch


class Places(torch.nn.Module):
    """Adds rows of a table, along the axis that it is made for, and drops some."""

    def __init__(self, axis: int | None, drop: float) -> None:
        super().__init__()
        self.axis = axis
        self.drop = torch.nn.Dropout(drop)
        self.register_buffer("pe", torch.randn(40, 1, 16))

    def forward(self, x: Any) -> Any:
        if self.axis is None:
            return self.drop(x * 2)
        rows = self.pe[: x.size(self.axis)]
        return self.drop(x + (rows if self.axis == 0 else rows.transpose(0, 1)))


@pytest.mark.parametrize(("axis", "told"), [(0, 1.0), (1, 0.0), (None, None)])
@pytest.mark.parametrize("drop", [0.0, 0.3])
def test_the_axis_of_encodings_is_told_also_where_they_drop(axis: int | None, told: float | None, drop: float) -> None:
    with recorded() as kept:
        model = torch.nn.Sequential(torch.nn.Linear(3, 16), Places(axis, drop), torch.nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(torch.randn(6, 9, 3)).sum().backward()
            optimizer.step()
    found = [(row["object"], row["value"]) for row in kept.table("scalar") if row["name"] == NAME]
    assert found == ([] if told is None else [("model.1#6x9", told)] * 3)
