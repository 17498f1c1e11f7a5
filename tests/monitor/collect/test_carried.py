"""Whether a pass tells that a model was given back the state that it gave out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


class Recurrent(torch.nn.Module):
    """A network that gives out its state."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: Any, state: Any) -> Any:
        return self.rnn(x, state)


@pytest.mark.parametrize("kept", ["detached", "copied", "new"])
def test_a_pass_tells_of_a_state_that_is_carried_on(kept: str) -> None:
    with recorded() as told:
        net = Recurrent()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        state = None
        for _ in range(3):
            if state is not None:
                state = tuple(one.detach() if kept == "detached" else one.detach().clone() for one in state)
            if kept == "new":
                state = (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))
            out, state = net(torch.randn(2, 5, 3), state)
            optimizer.zero_grad()
            out.square().sum().backward()
            optimizer.step()
    assert not told.table("trouble")
    carried = [call["args"]["carried"] for call in told.calls("forward")]
    assert carried == [False, kept != "new", kept != "new"]
