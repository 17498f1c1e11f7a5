"""What the recorder tells of losses that are reduced to one number, and of the ratios that a loss clips."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.torch


def told(kept: Kept, name: str) -> list[tuple[str, float]]:
    """The function, or the place's end, of each number of a name, with its value."""
    return [(row["object"].split("#", 2)[-1], row["value"]) for row in kept.table("scalar") if row["name"] == name]


class Heads(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.first, self.second = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3), torch.nn.Linear(6, 1)

    def forward(self, x: Any) -> Any:
        return self.first(self.body(x)), self.second(self.body(x)).squeeze(1)


def train(whole: bool, steps: int = 4, **settings: Any) -> tuple[Kept, list[float]]:
    torch.manual_seed(0)
    model = Heads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with recorded(**settings) as kept:
        for _ in range(steps):
            x, y = torch.randn(8, 4), torch.randint(3, (8,))
            scores, guess = model(x)
            loss, other = F.cross_entropy(scores, y), torch.nn.L1Loss()(guess, x[:, 0])
            if whole:
                loss = loss + other
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        optimizer.zero_grad()
        model(torch.randn(8, 4))  # the last iteration ends where the next one begins
    return kept, losses


def test_a_loss_tells_whether_gradients_came_to_it() -> None:
    kept, _ = train(whole=True, steps=1)
    assert [value for _, value in told(kept, "term.reached")] == [1.0, 1.0]
    kept, _ = train(whole=False, steps=1)
    assert [(word.split("#")[0], value) for word, value in told(kept, "term.reached")] == [
        ("cross_entropy", 1.0),
        ("l1_loss", 0.0),
    ]
    assert [row["object"].split("#")[-1] for row in kept.table("scalar") if row["name"] == "term.ends"] == ["NllLoss"]


def test_a_loss_that_is_a_mean_is_told_by_what_it_is_the_mean_of() -> None:
    kept, _ = train(whole=True, steps=1)
    words = [row["object"].split("#")[-1] for row in kept.table("scalar") if row["name"] == "term.reached"]
    ends = [row["object"].split("#")[-1] for row in kept.table("scalar") if row["name"] == "term.ends"]
    assert words == ["NllLoss", "Abs"]
    assert ends == ["Abs+NllLoss"]


def test_a_loss_of_numbers_that_were_detached_before_is_told_but_none_of_an_evaluation() -> None:
    model = Heads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(2):
            x, y = torch.randn(8, 4), torch.randint(3, (8,))
            scores, guess = model(x)
            loss = F.cross_entropy(scores, y) + F.mse_loss(guess.detach(), x[:, 0])
            with torch.no_grad():
                F.l1_loss(guess, x[:, 0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
    found = [(word.split("#")[0], value) for word, value in told(kept, "term.reached")]
    assert found[:2] == [("cross_entropy", 1.0), ("mse_loss", 0.0)]
    assert "l1_loss" not in dict(found)


def test_losses_are_the_same_and_nothing_is_told_outside_of_detail() -> None:
    kept, losses = train(whole=True)
    plain, others = train(whole=True, detail_first=0, detail_every=0)
    assert losses == others
    assert told(kept, "term.value")
    assert not told(plain, "term.value")


def test_what_a_backward_pass_computes_once_more_is_no_further_loss() -> None:
    from torch.utils.checkpoint import checkpoint

    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(2):
            loss = checkpoint(lambda one: F.mse_loss(model(one), one[:, :2]), x, use_reentrant=False)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert [value for _, value in told(kept, "term.reached")] == [1.0]


def test_a_ratio_is_told_with_the_samples_that_were_there_before() -> None:
    torch.manual_seed(0)
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.5)
    states, chosen = torch.randn(16, 4), torch.randint(3, (16, 1))
    old = policy(states).log_softmax(1).gather(1, chosen).detach()
    with recorded() as kept:
        for itself in (False, False, True):
            new = policy(states).log_softmax(1).gather(1, chosen)
            ratio = (new - (new.detach() if itself else old)).exp()
            loss = -torch.min(ratio * 2, ratio.clamp(0.8, 1.2) * 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert [row["value"] for row in kept.table("scalar") if row["name"] == "ratio.one"] == [1.0, 0.0, 1.0]
    # In the first pass nobody knew yet that there is a ratio.
    assert [row["value"] for row in kept.table("scalar") if row["name"] == "ratio.again"] == [0.0, 1.0]


def smoothed(target: Any, smoothing: float = 0.1) -> list[float]:
    with recorded() as kept:
        torch.nn.CrossEntropyLoss(label_smoothing=smoothing)(torch.randn(4, 5, requires_grad=True), target).backward()
    return [row["value"] for row in kept.table("scalar") if row["name"] == "labels.smoothed"]


def test_targets_that_a_loss_smooths_tell_whether_they_were_smoothed_before() -> None:
    single = torch.eye(5)[[0, 3, 3, 1]]
    mixed = 0.7 * single + 0.3 * single.flip(0)
    assert smoothed(single) == smoothed(mixed) == [0.0]
    assert smoothed(single * 0.9 + 0.02) == smoothed(mixed * 0.9 + 0.02) == [1.0]
    assert smoothed(torch.randn(4, 5).softmax(1)) == smoothed(torch.full((4, 5), 0.2)) == [0.0]
    assert smoothed(single * 0.9 + 0.02, 0.0) == smoothed(torch.tensor([0, 1, 2, 3])) == []


def same(loss: Any) -> list[float]:
    """What is told of losses of the same tensors, where this loss is gone back from in two iterations."""
    torch.manual_seed(0)
    left, right = torch.nn.Linear(4, 6), torch.nn.Linear(4, 6)
    optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.1)
    with recorded() as kept:
        for _ in range(3):
            optimizer.zero_grad()
            loss(left(torch.randn(6, 4)), right(torch.randn(6, 4))).backward()
            optimizer.step()
    return [value for _, value in told(kept, "term.same")]


def one_way(scores: Any) -> Any:
    return F.cross_entropy(scores, torch.arange(len(scores)))


def test_a_contrastive_loss_whose_second_direction_is_the_first_one_is_told() -> None:
    assert same(lambda one, two: one_way(scores := one @ two.T) + one_way(scores)) == [1.0, 1.0]
    assert not same(lambda one, two: one_way(scores := one @ two.T) + one_way(scores.T))


def test_the_same_loss_twice_is_told_where_both_count() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2, 2])

    def mixed(share: float, other: Any) -> Any:
        return lambda one, two: (
            share * F.cross_entropy(one, labels) + (1 - share) * F.cross_entropy(one + 0 * two, other)
        )

    def alike(share: float, other: Any) -> Any:
        return lambda one, two: share * F.cross_entropy(one, labels) + (1 - share) * F.cross_entropy(one, other)

    assert same(alike(0.5, labels)) == [1.0, 1.0]
    assert same(alike(1.0, labels)) == [0.0, 0.0]
    assert not any(same(alike(0.7, labels.flip(0))))
    assert not same(mixed(0.5, labels))


def test_a_loss_that_is_weighed_by_itself_is_another_one() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2, 2])

    def focal(one: Any) -> Any:
        hard = F.cross_entropy(one, labels)
        return (1 - torch.exp(-hard)) ** 2 * hard

    assert not same(lambda one, two: F.cross_entropy(one, labels) + focal(one))
    assert same(lambda one, two: F.cross_entropy(one, labels) / 2 + F.cross_entropy(one, labels).mean()) == [1.0, 1.0]


def test_losses_that_hold_others_fast_are_not_the_same() -> None:
    assert not same(lambda one, two: F.mse_loss(one, two.detach()) + F.mse_loss(one.detach(), two))
    assert not same(lambda one, two: F.huber_loss(one, two, delta=0.5) + F.huber_loss(one, two, delta=1.0))
    shown: list[Any] = []
    assert same(lambda one, two: (shown.append(F.mse_loss(one, two)), F.mse_loss(one, two))[1]) == []


def test_a_target_of_an_inference_tensor_is_no_trouble() -> None:
    with torch.inference_mode():
        labels = torch.tensor([0, 0, 1, 1, 2, 2]).float()[:, None].expand(6, 6) + 0
    assert not same(lambda one, two: F.l1_loss(one, labels) + F.l1_loss(one, two))


def over(kept: Kept) -> set[tuple[str, str]]:
    """The functions of losses that nothing comes to, with the parameters that they are computed from."""
    rows = [row["object"].split("#") for row in kept.table("scalar") if row["name"] == "term.over"]
    return {(row[2], row[-1]) for row in rows}


def test_a_loss_that_nothing_comes_to_names_the_matrices_it_is_computed_from() -> None:
    kept, _ = train(whole=False)
    assert over(kept) == {("l1_loss", "model.second.weight"), ("l1_loss", "model.body.weight")}
    kept, _ = train(whole=True)
    assert over(kept) == set()


def test_the_matrices_near_a_loss_are_named_and_those_far_below_are_not() -> None:
    torch.manual_seed(0)
    deep = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(40)))
    optimizer = torch.optim.SGD(deep.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(3):
            y = deep(torch.randn(4, 3))
            F.mse_loss(y, torch.zeros(4, 3))
            optimizer.zero_grad()
            y.sum().backward()
            optimizer.step()
        deep(torch.randn(4, 3))
    named = {name for _, name in over(kept)}
    assert "deep.39.weight" in named
    assert "deep.0.weight" not in named
    assert all(name.endswith("weight") for name in named)
