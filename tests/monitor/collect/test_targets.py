"""What the recorder tells of the targets of a loss: how many count, and what each counts for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = pytest.mark.torch
functional = torch.nn.functional


def told(kept: Kept) -> list[tuple[float, float]]:
    rows = [row for row in kept.table("scalar") if row["name"].startswith("targets.")]
    return [(count["value"], each["value"]) for count, each in zip(rows[::2], rows[1::2], strict=True)]


def trained(loss_of: Callable[[Any, Any], Any], passes: int = 1, **settings: Any) -> Kept:
    with recorded(**settings) as kept:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(passes):
            targets = torch.tensor([1, 2, -100, 0, 4, -100])
            loss_of(model(torch.randn(6, 4)), targets).backward()
        optimizer.step()
    return kept


@pytest.mark.parametrize(
    ("loss_of", "count", "each"),
    [
        (lambda scores, targets: functional.cross_entropy(scores, targets), 4, 0.25),
        (lambda scores, targets: 3 * functional.cross_entropy(scores, targets) / 2 + scores.sum(), 4, 0.375),
        (lambda scores, targets: functional.cross_entropy(scores, targets, reduction="sum") / 10, 4, 0.1),
        (lambda scores, targets: functional.cross_entropy(scores.T[None], targets[None], reduction="sum"), 4, 1.0),
    ],
    ids=["mean", "part of a sum", "sum", "of sequences"],
)
def test_targets_are_counted_and_weighed(loss_of: Callable[[Any, Any], Any], count: float, each: float) -> None:
    assert told(trained(loss_of)) == [(count, pytest.approx(each))]


def test_a_loss_that_the_program_averages_over_a_mask_tells_the_same() -> None:
    def masked(scores: Any, targets: Any) -> Any:
        each = functional.cross_entropy(scores, targets.clamp(min=0), reduction="none")
        return (each * (targets >= 0)).sum() / 8

    assert told(trained(masked)) == [(4.0, pytest.approx(1 / 8))]


def test_nothing_is_told_of_targets_that_weigh_differently_or_are_all_ignored() -> None:
    def uneven(scores: Any, targets: Any) -> Any:
        return (functional.cross_entropy(scores, targets.clamp(min=0), reduction="none") * torch.arange(6)).sum()

    assert not told(trained(uneven))
    assert not told(trained(lambda scores, targets: 0 * functional.cross_entropy(scores, targets)))


class NllLoss(torch.autograd.Function):  # type: ignore[misc]
    """A function of the program, which says nothing of how it is reduced."""

    @staticmethod
    def forward(ctx: Any, given: Any) -> Any:
        return -given.sum()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return -gradient.expand(6)


def test_a_loss_of_the_program_with_the_name_of_one_of_torchs_is_left_alone() -> None:
    def loss_of(scores: Any, targets: Any) -> Any:
        return NllLoss.apply(scores.log_softmax(1)[:, 0])

    kept = trained(loss_of)
    assert (told(kept), kept.table("trouble")) == ([], [])


def test_a_graph_that_is_gone_through_twice_is_told_of_once() -> None:
    def twice(scores: Any, targets: Any) -> Any:
        loss = functional.cross_entropy(scores, targets)
        torch.autograd.grad(loss, scores, retain_graph=True)
        return loss

    assert len(told(trained(twice))) == 1


def test_outside_detailed_iterations_only_several_passes_of_a_step_are_told() -> None:
    def mean(scores: Any, targets: Any) -> Any:
        return functional.cross_entropy(scores, targets)

    assert not told(trained(mean, detail_first=0, detail_every=0))
    assert len(told(trained(mean, passes=3, detail_first=0, detail_every=0))) == 2


def test_the_gradients_are_the_same() -> None:
    def gradients() -> Any:
        torch.manual_seed(1)
        scores = torch.randn(6, 5, requires_grad=True)
        for reduction in ("mean", "none"):
            functional.cross_entropy(
                scores, torch.tensor([1, 2, -100, 0, 4, -100]), reduction=reduction
            ).sum().backward()
        return scores.grad

    plain = gradients()
    with recorded():
        assert torch.equal(gradients(), plain)
