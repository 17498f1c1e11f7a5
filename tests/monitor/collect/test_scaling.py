"""What the recorder tells of losses that are scaled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("used", "accumulate"), [(True, 1), (True, 2), (False, 1)])
def test_a_scaled_step_tells_whether_gradients_came_to_what_was_scaled(used: bool, accumulate: int) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with recorded() as kept:
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(accumulate):
                loss = model(torch.randn(3, 4)).square().mean()
                scaled: Any = scaler.scale(loss)
                (scaled / accumulate if used else loss).backward()
            scaler.step(optimizer)
            scaler.update()
    told = [row["args"] for row in kept.calls("scaler.step")]
    assert told == [{"scaled": accumulate, "reached": accumulate if used else 0}] * 2
