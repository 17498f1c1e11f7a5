"""An optimizer that was made with a rate of zero is told from one that a schedule or the program has set to zero."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


def told(rate: float, **group: Any) -> bool:
    """Whether it is told of an optimizer that was made with a rate, of which a group may have its own."""
    with recorded() as kept:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([{"params": list(model.parameters()), **group}], lr=rate)
        if not rate:
            torch.optim.lr_scheduler.StepLR(optimizer, 1)
        else:
            torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
        model(torch.randn(3, 2)).sum().backward()
        optimizer.step()
    assert not kept.rows.get("trouble")
    return any((call["args"] or {}).get("made_at_zero") for call in kept.calls("optimizer.new"))


def test_only_a_rate_of_zero_that_it_was_made_with_is_told() -> None:
    assert told(0.0)
    assert not told(0.1)  # its warm-up begins at zero
    assert not told(0.0, lr=0.1)
