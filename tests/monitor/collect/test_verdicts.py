"""What the recorder tells of labels that networks are given for what others made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.collect.verdicts import Verdicts  # noqa: E402

pytestmark = pytest.mark.torch


def told(loss: Any, made: float, held: int = 2, between: Any = None) -> list[tuple[str, str, float]]:
    """Labels by loss and optimizer, of three rounds of a maker and of a judge that is given this label for what is made."""
    torch.manual_seed(0)
    maker, judge = torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    say = between or (lambda one, other: one)
    parts = [judge.parameters(), maker.parameters()] if held == 2 else [[*judge.parameters(), *maker.parameters()]]
    with recorded() as kept:
        steps = [torch.optim.SGD(part, lr=0.01) for part in parts]
        for _ in range(3):
            real, fake = torch.randn(8, 4), maker(torch.randn(8, 3))
            ones, label = torch.ones(8, 1), torch.full((8, 1), made)
            steps[0].zero_grad()
            one, other = judge(real), judge(fake.detach())
            (loss(say(one, other), ones) + loss(say(other, one), label)).backward()
            steps[0].step()
            steps[-1].zero_grad()
            loss(judge(fake), ones).backward()
            steps[-1].step()
    rows = [row for row in kept.table("scalar") if row["name"].startswith("verdict.")]
    return [(row["name"], "#".join(row["object"].split("#")[1:]), row["value"]) for row in rows]


BCE, MSE = torch.nn.BCEWithLogitsLoss(), torch.nn.MSELoss()


@pytest.mark.parametrize(("made", "value"), [(0.0, 0.0), (0.1, 0.0), (1.0, 1.0), (0.5, 0.5)])
def test_labels_are_told_of_a_network_by_itself_and_through_it(made: float, value: float) -> None:
    rows = told(BCE, made)
    word = "binary_cross_entropy_with_logits#optimizer0"
    own, through = ("verdict.own", word), ("verdict.through", word)
    # In the first round the second optimizer is not known before it is used.
    assert rows[1:4] == [(*own, 1.0), (*own, value), (*through, 1.0)]


def test_a_distance_is_a_verdict_only_where_it_is_one_to_the_label_itself() -> None:
    assert {row[2] for row in told(MSE, 0.0) if row[0] == "verdict.own"} == {0.0, 1.0}
    assert {row[2] for row in told(MSE, 0.1) if row[0] == "verdict.own"} == {0.5, 1.0}


def test_nothing_is_told_of_verdicts_that_are_compared_or_where_one_optimizer_holds_all() -> None:
    assert not [row for row in told(BCE, 1.0, between=lambda one, other: one - other) if row[0] == "verdict.own"]
    assert not told(BCE, 1.0, held=1)


class Operation:
    """Stands for an operation only as long as somebody holds it, as in older versions of torch."""

    def __init__(self, below: list[Any], variable: Any = None) -> None:
        self._below = below
        self.variable = variable

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad" if self.variable is not None else "AddBackward0"

    @property
    def next_functions(self) -> list[tuple[Any, int]]:
        return [(Operation(*one), 0) for one in self._below]


def test_each_operation_is_gone_through_where_another_one_stood_for_it_before() -> None:
    weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(12)]
    optimizers = [torch.optim.SGD(weights[:6], lr=0.1), torch.optim.SGD(weights[6:], lr=0.1)]

    def chain(rest: list[Any]) -> list[Any]:
        return [[([], rest[0])], None] if len(rest) == 1 else [[([], rest[0]), tuple(chain(rest[1:]))], None]

    watching = Verdicts.__new__(Verdicts)
    watching.variables = type("Known", (), {"optimizers": lambda self: list(enumerate(optimizers))})()
    assert watching._holder(Operation(chain(weights)[0]), 4000) is None
    assert watching._holder(Operation(chain(weights[:6])[0]), 4000) == 0
