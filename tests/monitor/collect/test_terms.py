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
