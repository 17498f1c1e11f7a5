"""Gradients that are cleared of an optimizer that never stepped, while another one does, are told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("by_module", [False, True])
def test_an_optimizer_that_waits_for_its_first_step_is_told_where_its_gradients_are_cleared(by_module: bool) -> None:
    with recorded() as kept:
        parts = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in parts)
        for number in range(4):
            if by_module:
                parts.zero_grad()
            else:
                first.zero_grad()
                second.zero_grad()
            parts(torch.ones(1, 2)).sum().backward()
            first.step()
            if number == 2:
                second.step()
    clears = kept.calls("zero_grad")
    told = [call["args"].get("waiting") for call in clears if by_module or "optimizer1" in call["object"]]
    assert told == [None, [1], [1], None]
