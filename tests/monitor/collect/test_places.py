"""Where the person's own code computed a loss with which a library goes backward itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch

LIBRARY = """
def fit(module, batch):
    loss = module.training_step(batch)
    loss.backward()

def backward(loss):
    loss.backward()

def main(function, *given):
    return function(*given)
"""
OWN = """
def training_step(net, batch):
    out = net(batch)
    return out.sum()

def loop(net, batch, library):
    library["backward"](training_step(net, batch))

class Step:
    def __init__(self, net):
        self.net = net

    def training_step(self, batch):
        return training_step(self.net, batch)

def fitted(net, batch, library):
    library["fit"](Step(net), batch)

def own(net, batch, library):
    library["main"](training_step, net, batch).backward()

def begun(net, batch, library):
    library["main"](loop, net, batch, library)
"""


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("fitted", "/x/train.py:3"),  # a trainer calls the step and goes backward
        ("loop", None),  # the loop is the person's own; a library only goes backward, as Accelerate does
        ("own", None),  # the person goes backward
        ("begun", None),  # a library calls the main function, as Hydra does
    ],
)
def test_the_line_of_a_loss_that_a_trainer_asked_for(function: str, line: str | None) -> None:
    library: dict[str, Any] = {}
    own: dict[str, Any] = {}
    exec(compile(LIBRARY, "/x/site-packages/trainer/loop.py", "exec"), library)
    exec(compile(OWN, "/x/train.py", "exec"), own)
    with recorded() as kept:
        own[function](torch.nn.Linear(3, 2), torch.randn(4, 3), library)
    [row] = kept.calls("backward")
    assert row["args"].get("computed") == line
    assert str(row["place"]).startswith("/x/train.py:")
