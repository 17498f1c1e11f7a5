"""Where a text says that a part of the training begins later: a cut, or a step, under a condition on progress."""

from __future__ import annotations

import ast

import pytest

from preflight.monitor.collect.staged import staged
from preflight.monitor.collect.texts import Texts


def told(text: str) -> dict[str, bool]:
    return staged(Texts({"train.py": ast.parse(text)}))


@pytest.mark.parametrize(
    "text",
    [
        "for step in range(9):\n    if step < warm_up:\n        loss = loss.detach()\n",
        "with torch.no_grad() if epoch < 3 else nullcontext():\n    h = body(x)\n",
        "class Net:\n    def forward(self, x, early):\n        with no_grad() if early else null():\n"
        "            h = self.body(x)\nnet = Net()\nnet(x, step < 5)\n",
        "net.train_body = epoch >= 3\nwith torch.set_grad_enabled(net.train_body):\n    h = body(x)\n",
        "def f(frozen_stage):\n    if frozen_stage:\n        h = h.detach()\n",
        "early = global_step <= limit\nif early:\n    parameter.requires_grad = False\n",
    ],
)
def test_a_cut_that_ends_at_some_point_is_told(text: str) -> None:
    assert told(text) == {"cuts": True, "steps": False}


@pytest.mark.parametrize(
    "text",
    [
        "h = body(x).detach()\n",
        "if step % 10 == 0:\n    with torch.no_grad():\n        evaluate()\n",
        "if (epoch + 1) % every < 1:\n    with torch.no_grad():\n        evaluate()\n",
        "if loss > 3:\n    loss = loss.detach()\n",
        "if step < 10:\n    print(step)\nh = body(x).detach()\n",
        "if epoch > 3:\n    scheduler.step()\n",
        'for phase in ("train", "val"):\n    with torch.set_grad_enabled(phase == "train"):\n        h = body(x).detach()\n',
        'if phase == "training":\n    optimizer.step()\n',
        "if stage is Stage.TRAIN:\n    optimizer.step()\n",
    ],
)
def test_what_comes_again_and_again_or_always_is_not(text: str) -> None:
    assert told(text) == {"cuts": False, "steps": False}


def test_a_step_that_begins_later_is_told() -> None:
    assert told("for it in range(9):\n    if iteration >= start:\n        d_opt.step()\n") == {
        "cuts": False,
        "steps": True,
    }
