"""What becomes of gradients that have a graph of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = pytest.mark.torch


def penalised(weight: float | None, graph: bool = True, training: bool = True) -> Kept:
    """Four steps with a gradient penalty of this weight, None for one that is left out."""
    with recorded() as kept:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).train(training)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            x = torch.randn(6, 4, requires_grad=True)
            score = model(x).sum()
            (grad,) = torch.autograd.grad(score, x, create_graph=graph, retain_graph=True)
            penalty = (grad.norm(dim=1) - 1).pow(2).mean()
            loss = score if weight is None else score + weight * penalty
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert not kept.table("trouble")
    return kept


def unused(kept: Kept) -> list[Any]:
    return [(call["args"] or {}).get("unused") for call in kept.calls("autograd.grad")]


def test_gradients_that_nothing_goes_back_through_are_counted() -> None:
    assert unused(penalised(None)) == [0, 1, 2, 3]


@pytest.mark.parametrize("weight", [1.0, 0.0])
def test_a_backward_pass_through_them_ends_the_count(weight: float) -> None:
    assert unused(penalised(weight)) == [0, 0, 0, 0]


def test_those_without_a_graph_and_of_a_model_that_is_evaluated_are_not_meant() -> None:
    assert unused(penalised(None, graph=False)) == [None] * 4
    assert unused(penalised(None, training=False)) == [None] * 4


def asked(take: Any, training: bool = True) -> Any:
    """What is told of a call that takes gradients, after a step."""
    with recorded() as kept:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).train(training)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(6, 4)).sum().backward()
        optimizer.step()
        x = torch.randn(6, 4, requires_grad=True)
        take(model, x)
    assert not kept.table("trouble")
    return [(call["args"] or {}).get("without graph") for call in kept.calls("autograd.grad")]


def test_of_gradients_without_a_graph_the_inputs_of_what_a_network_says_are_told() -> None:
    def grad(*args: Any, **kwargs: Any) -> Any:
        return torch.autograd.grad(*args, **kwargs)

    squared = torch.nn.functional.mse_loss
    assert asked(lambda model, x: grad(model(x).sum(), x)) == [[[6, 4]]]
    assert asked(lambda model, x: grad(model(x), [x], torch.ones(6, 1), retain_graph=True)) == [[[6, 4]]]
    assert asked(lambda model, x: grad(outputs=model(2 * x).view(-1).mean(), inputs=x)) == [[[6, 4]]]
    assert asked(lambda model, x: grad(model(x).sum(), x, create_graph=True)) == [None]
    assert asked(lambda model, x: grad(model(x).sum(), x, None, True, True)) == [None]
    assert asked(lambda model, x: grad(model(x).sum(), list(model.parameters()))) == [None]
    assert asked(lambda model, x: grad(squared(model(x), torch.ones(6, 1)), x)) == [None]  # of a loss
    assert asked(lambda model, x: grad((model(x) - 1).square().sum(), x)) == [None]
    assert asked(lambda model, x: grad(x.sum(), x)) == [None]  # of no network
    assert asked(lambda model, x: grad(model(x).sum(), x), training=False) == [None]
