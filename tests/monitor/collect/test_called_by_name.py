"""A model whose ``forward`` is called by its name: its parts are not what the program calls itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.relations.gradients_reach import GradientsReach  # noqa: E402
from preflight.monitor.views.flow import flow_of  # noqa: E402
from preflight.monitor.window import Window  # noqa: E402

pytestmark = pytest.mark.torch
nn, optim = torch.nn, torch.optim


class Heads(nn.Module):  # type: ignore[misc]
    """Two heads on one body, of which a loss may be made or not."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 8), nn.ReLU())
        self.state, self.action = nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, x: Any) -> Any:
        hidden = self.body(x)
        return self.state(hidden), self.action(hidden)


def by_name(model: Any, x: Any) -> Any:
    return model.forward(x)


def by_parts(model: Any, x: Any) -> Any:
    hidden = model.body(x)
    return model.state(hidden), model.action(hidden)


def trained(passes: Any) -> list[Window]:
    """What is told of a training whose loss is made of the second head alone."""
    torch.manual_seed(0)
    with recorded() as kept:
        model = Heads()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            x = torch.randn(4, 3)
            _, action = passes(model, x)
            loss = (action - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return kept.windows()


def told(windows: list[Window]) -> list[str]:
    relation = GradientsReach()
    return [name for window in windows for one in relation.see(window) if not one.holds for name in one.variables]


def parts(windows: list[Window]) -> set[str]:
    """The parts of the model that the program is seen to call itself."""
    return {name for name in flow_of(windows[-1]).roots if "." in name}


def test_a_head_that_a_forward_computes_and_no_loss_uses_is_left_alone() -> None:
    windows = trained(by_name)
    assert told(windows) == []
    assert parts(windows) == set()


def test_a_head_that_the_program_calls_itself_and_no_loss_uses_is_told() -> None:
    windows = trained(by_parts)
    assert set(told(windows)) == {"model.state.weight", "model.state.bias"}
    assert parts(windows) == {"model.body", "model.state", "model.action"}
