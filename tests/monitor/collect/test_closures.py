"""Steps that are given a closure: once the gradients of one that evaluates it first are there, they are like any other."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


class _Plain(torch.optim.Optimizer):  # type: ignore[misc]
    """Descends, after it has called its closure as often as it is told to."""

    calls = 1

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def step(self, closure: Any = None) -> Any:
        loss = None
        for _ in range(self.calls):
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for one in self.param_groups[0]["params"]:
                one.sub_(0.1 * one.grad)
        return loss


class _Reaching(torch.optim.SGD):  # type: ignore[misc]
    """Evaluates its closure on weights that it has moved, as sharpness-aware minimisation does."""

    hidden = False

    def step(self, closure: Any = None) -> Any:
        with torch.no_grad():
            for one in self.param_groups[0]["params"]:
                (one.data if self.hidden else one).add_(0.1)
        with torch.enable_grad():
            loss = closure()
        with torch.no_grad():
            for one in self.param_groups[0]["params"]:
                one.sub_(0.1 + 0.01 * one.grad)
        return loss


def _train(kind: type[Any], steps: int = 3, failing: int = -1) -> Any:
    with recorded() as kept:
        net = torch.nn.Linear(3, 1)
        optimizer = kind(net.parameters(), lr=0.1)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = net(torch.ones(4, 3)).pow(2).mean()
            loss.backward()
            return loss

        for number in range(steps):
            if not getattr(kind, "calls", 1):
                closure()
            with contextlib.suppress(ZeroDivisionError):
                optimizer.step((lambda: 1 / 0) if number == failing else closure)
    return kept


def test_a_closure_that_is_called_first_and_once_comes_before_its_step() -> None:
    kept = _train(torch.optim.SGD)
    names = [row["name"] for row in sorted(kept.calls(), key=lambda row: row["q"])]
    assert [one for one in names if one in ("zero_grad", "backward", "step")] == ["zero_grad", "backward", "step"] * 3
    steps = kept.calls("step")
    assert [row["args"]["closure"] for row in steps] == [False] * 3
    assert [row["parent"] for row in kept.calls("backward")] == [-1] * 3
    gradients = [row for row in kept.table("state") if row["moment"] == "before_step" and row["what"] == "gradient"]
    assert len(gradients) == 3
    for row, backward, step in zip(gradients, kept.calls("backward"), steps, strict=True):
        assert backward["e"] < row["q"] < step["q"]
        assert all(row["norm"])


@pytest.mark.parametrize("hidden", [False, True])
def test_a_closure_that_is_called_on_moved_weights_leaves_no_state_before_the_step(hidden: bool) -> None:
    kept = _train(type("Reaching", (_Reaching,), {"hidden": hidden}))
    assert [row["args"]["closure"] for row in kept.calls("step")] == [True] * 3
    before = [row for row in kept.table("state") if row["moment"] == "before_step" and row["what"] == "parameter"]
    after = [row for row in kept.table("state") if row["moment"] == "after_step" and row["what"] == "parameter"]
    for row in before:
        ended = [one for one in after if one["q"] < row["q"]]
        assert not ended or row["bits"] is None or row["bits"] == ended[-1]["bits"]


def test_a_closure_that_is_called_several_times_is_within_the_step() -> None:
    kept = _train(type("Twice", (_Plain,), {"calls": 2}))
    steps = kept.calls("step")
    assert [row["args"]["closure"] for row in steps] == [True] * 3
    assert len(kept.calls("backward")) == 6
    within = [row for row in kept.calls("backward") if row["parent"] == steps[-1]["q"]]
    assert len(within) == 2


def test_a_step_that_never_calls_its_closure_is_told() -> None:
    kept = _train(type("Deaf", (_Plain,), {"calls": 0}))
    assert [row["args"]["closure"] for row in kept.calls("step")] == [True] * 3


def test_a_closure_that_fails_hides_no_later_step() -> None:
    kept = _train(torch.optim.SGD, steps=4, failing=1)
    assert [row["args"]["closure"] for row in kept.calls("step")] == [False] * 3
    assert not kept.table("trouble")


def test_what_a_program_asks_of_its_closure_it_still_gets() -> None:
    class Asking(torch.optim.SGD):  # type: ignore[misc]
        def step(self, closure: Any = None) -> Any:
            return closure.said + float(super().step(closure).detach())

    class Closure:
        said = 7.0

        def __call__(self) -> Any:
            return net(torch.zeros(1, 2)).sum() * 0

    with recorded():
        net = torch.nn.Linear(2, 1)
        assert Asking(net.parameters(), lr=0.1).step(closure=Closure()) == 7.0
