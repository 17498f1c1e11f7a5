"""Parameters that were one and are replaced by several are told."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.monitor.collect.recording import recorded  # noqa: E402
from torch import nn  # noqa: E402

from preflight.monitor.judging.engine import Engine  # noqa: E402
from preflight.vocabulary.invariant import Invariant  # noqa: E402


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Any) -> Any:
        return self.head(self.embed(ids))


def found(how: str, again: bool) -> list[str]:
    with recorded() as kept:
        if how == "to_empty":
            with torch.device("meta"):
                model = Tied()
            model = model.to_empty(device="cpu")
            for parameter in model.parameters():
                nn.init.normal_(parameter)
        else:
            model = Tied()
            model.load_state_dict({name: one.clone() for name, one in model.state_dict().items()}, assign=True)
        if again:
            model.head.weight = model.embed.weight
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.arange(8)).sum().backward()
            optimizer.step()
    assert not kept.table("trouble")
    engine = Engine([Invariant(id="tying-kept", relation="tying-kept")])
    for window in kept.windows():
        engine.see(window)
    engine.finish()
    return [name for one in engine.violations() for name in one.variables]


@pytest.mark.parametrize("how", ["to_empty", "assign"])
def test_ties_that_are_lost_are_told_unless_they_are_made_again(how: str) -> None:
    assert found(how, again=False) == ["model.embed.weight", "model.head.weight"]
    assert found(how, again=True) == []


def test_ties_that_are_made_again_between_two_looks_in_detail_are_seen() -> None:
    with recorded(detail_first=1, detail_every=0) as kept:
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for number in range(4):
            if number == 2:
                nn.Linear(4, 4)(torch.zeros(1, 4))  # a new name, for which the load looks at everything
                model.load_state_dict({name: one.clone() for name, one in model.state_dict().items()}, assign=True)
                model.head.weight = model.embed.weight
                optimizer.param_groups[0]["params"] = list(model.parameters())
            optimizer.zero_grad()
            model(torch.arange(8)).sum().backward()
            optimizer.step()
    assert not kept.table("trouble")
    engine = Engine([Invariant(id="tying-kept", relation="tying-kept")])
    for window in kept.windows():
        engine.see(window)
    engine.finish()
    assert kept.calls("untied")
    assert not engine.violations()
