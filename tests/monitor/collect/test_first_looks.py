"""What is looked at in the first passes and steps: units, targets, leaves, layers and dropouts that are made on the way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = pytest.mark.torch
nn, functional = torch.nn, torch.nn.functional


def train(model: Any, steps: int = 4, width: int = 3, **settings: Any) -> Kept:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded(**settings) as kept:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(8, width)).square().sum().backward()
            optimizer.step()
    return kept


def numbers(kept: Kept, name: str) -> list[tuple[str, float]]:
    return [(row["object"], row["value"]) for row in kept.table("scalar") if row["name"] == name]


def test_units_that_stay_copies_of_each_other_are_told_by_name() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.1)
    assert numbers(train(model), "units.alike") == [("model.0.weight", 1.0), ("model.2.weight", 1.0)]


def test_units_that_begin_at_zero_and_part_are_not() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    nn.init.zeros_(model[2].weight)
    assert numbers(train(model), "units.alike") == [("", 0.0)]
    assert not numbers(train(model, needs=("scalar", "step")), "units.alike")


def told(loss: Any) -> dict[str, float]:
    with recorded() as kept:
        loss.backward()
    return {
        name: value for name in ("low", "high", "below", "outside") for _, value in numbers(kept, f"targets.{name}")
    }


def test_the_range_of_targets_is_told_for_losses_that_keep_them() -> None:
    labels = torch.tensor([-1.0, 1.0, 1.0, -1.0])
    ranges = {"low": -1.0, "high": 1.0, "below": 0.5, "outside": 0.5}

    def scores() -> Any:
        return torch.randn(4, requires_grad=True)

    assert told(functional.binary_cross_entropy_with_logits(scores(), labels)) == ranges
    assert told(2 * functional.mse_loss(scores().sigmoid(), labels)) == ranges
    assert told(functional.huber_loss(scores(), torch.tensor([-1.0, 0.0, 3.0, 0.0])))["below"] == pytest.approx(0.1)
    assert told(functional.mse_loss(scores(), torch.zeros(4)))["below"] == 0
    assert told(functional.cross_entropy(scores()[None], torch.tensor([1]))) == {}
    assert told(functional.mse_loss(scores(), labels) + functional.mse_loss(scores().exp(), labels)) == {}


def summed(loss: Any) -> list[float | None]:
    with recorded() as kept:
        loss.backward()
    return [value for _, value in numbers(kept, "targets.sums")]


def test_how_many_samples_have_probabilities_that_add_up_to_more_than_one_is_told_of_a_cross_entropy() -> None:
    scores = torch.randn(4, 3, requires_grad=True)
    several = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    assert summed(functional.cross_entropy(scores, several)) == [0.5]
    assert summed(functional.cross_entropy(scores, several) / 2) == [0.5]
    assert summed(functional.cross_entropy(scores, several, weight=torch.ones(3))) == [0.5]
    assert summed(functional.cross_entropy(scores, several, label_smoothing=0.1)) == [0.5]
    assert summed(functional.cross_entropy(scores, scores.detach().softmax(-1))) == [0.0]
    assert summed(functional.cross_entropy(scores, 7 * several)) == [0.0]  # weights, and no probabilities
    assert summed(functional.cross_entropy(scores[0], several[0])) == [1.0]
    positions = several[..., None].expand(4, 3, 2)
    assert summed(functional.cross_entropy(scores[..., None].expand(4, 3, 2), positions)) == [0.5]


def test_what_a_program_weighs_and_adds_up_by_itself_is_not_taken_for_probabilities() -> None:
    scores, mask = torch.randn(4, 3, requires_grad=True), torch.ones(4, 3)
    said = scores.log_softmax(-1)
    assert summed(-(said * mask).sum() / mask.sum()) == []
    assert summed(-(scores.log_softmax(-1) * mask).sum(1).mean()) == []
    assert summed(functional.cross_entropy(scores, torch.tensor([0, 1, 2, 0]))) == []
    group = torch.tensor([0, 1, 0, 2])
    assert summed(functional.cross_entropy(scores @ scores.T, (group[:, None] == group).float())) == []  # several fit


def test_probabilities_are_not_added_up_where_no_invariant_asks() -> None:
    scores = torch.randn(4, 3, requires_grad=True)
    with recorded(needs=("backward", "scalar", "targets.outside")) as kept:
        functional.cross_entropy(scores, torch.ones(4, 3)).backward()
    assert not numbers(kept, "targets.sums")


@pytest.mark.parametrize(
    ("labels", "blank", "share"),
    [
        (torch.tensor([0, 1, 2, 1, 0]), 0, [0.4]),
        (torch.tensor([0, 1, 2, 1, 0]), 4, [0.0]),
        (torch.tensor([[1, 2, 0], [3, 1, 2]]), 0, [0.0]),  # padding behind the labels
        (torch.tensor([[1, 0, 0], [3, 1, 2]]), 0, [0.2]),
    ],
    ids=["beside each other", "another blank", "padded", "padded and wrong"],
)
def test_the_share_of_labels_that_are_the_blank_is_told_for_ctc(labels: Any, blank: int, share: list[float]) -> None:
    said = torch.randn(6, 2, 5, requires_grad=True).log_softmax(-1)
    with recorded() as kept:
        functional.ctc_loss(said, labels, torch.tensor([6, 6]), torch.tensor([2, 3]), blank=blank).backward()
    assert [value for _, value in numbers(kept, "targets.blank")] == [pytest.approx(one) for one in share]


def test_the_blank_is_not_looked_for_where_no_invariant_asks() -> None:
    said = torch.randn(6, 2, 5, requires_grad=True).log_softmax(-1)
    with recorded(needs=("backward", "scalar", "targets.outside")) as kept:
        functional.ctc_loss(said, torch.tensor([0, 1, 1]), torch.tensor([6, 6]), torch.tensor([1, 2])).backward()
    assert not numbers(kept, "targets.blank")


class Leaving(nn.Module):  # type: ignore[misc, name-defined]
    """A model with a tensor beside its parameters."""

    def __init__(self, token: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.token = token

    def forward(self, x: Any) -> Any:
        return self.layer(x + self.token)


def test_a_leaf_that_gathers_gradients_is_told_until_somebody_steps_it() -> None:
    left = numbers(train(Leaving(torch.zeros(3, requires_grad=True))), "leaf.left")
    assert left
    assert set(left) == {("model.token", 1.0)}


def test_parameters_and_tensors_without_gradients_are_no_leaves_that_were_left() -> None:
    assert not numbers(train(Leaving(torch.zeros(3))), "leaf.left")
    assert not numbers(train(Leaving(nn.Parameter(torch.zeros(3)))), "leaf.left")


def test_a_leaf_that_the_program_updates_is_left_alone() -> None:
    model = Leaving(torch.zeros(3, requires_grad=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 3)).square().sum().backward()
            optimizer.step()
            with torch.no_grad():
                model.token -= 0.1 * model.token.grad
    assert not numbers(kept, "leaf.left")


class Plain:
    """What holds a parameter and is no module."""

    def __init__(self) -> None:
        self.weight = nn.Parameter(torch.zeros(3))


class Holding(nn.Module):  # type: ignore[misc, name-defined]
    """A model that adds what it holds in some way."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.held = held
        self.all = [*self.layer.parameters()]

    def forward(self, x: Any) -> Any:
        token = self.held.weight if isinstance(self.held, (Plain, nn.Linear)) else next(iter(self.held))
        return self.layer(x + (self.held[token] if isinstance(self.held, dict) else token))


@pytest.mark.parametrize(
    ("held", "name"),
    [(Plain(), "weight"), ([nn.Parameter(torch.zeros(3))], "0"), ({"a": nn.Parameter(torch.zeros(3))}, "a")],
)
def test_parameters_are_found_in_what_is_no_module(held: Any, name: str) -> None:
    assert set(numbers(train(Holding(held), steps=5), "leaf.left")) == {(f"model.held.{name}", 1.0)}


def test_parameters_that_a_model_lists_beside_it_are_known() -> None:
    model = Holding([torch.zeros(3)])
    optimizer = torch.optim.SGD([model.layer.bias], lr=0.1)  # the others are meant to stay
    with recorded() as kept:
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(8, 3)).square().sum().backward()
            optimizer.step()
    assert not numbers(kept, "leaf.left")


@pytest.mark.parametrize("holding", [False, True])
def test_what_is_written_to_through_its_data_is_left_alone(holding: bool) -> None:
    token = nn.Parameter(torch.zeros(3)) if holding else torch.zeros(3, requires_grad=True)
    model = Holding([token]) if holding else Leaving(token)
    with recorded() as kept:
        for _ in range(6):
            model(torch.randn(8, 3)).square().sum().backward()
            for one in (token, *model.layer.parameters()):
                one.data -= 0.01 * one.grad
                one.grad.zero_()
    assert not numbers(kept, "leaf.left")


class Making(nn.Module):  # type: ignore[misc, name-defined]
    """A model that makes a part in its forward pass, or keeps it in a list."""

    def __init__(self, make: Any, kept: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.make = make
        self.parts = [make()] if kept else []

    def forward(self, x: Any) -> Any:
        return (self.parts[0] if self.parts else self.make())(self.layer(x))


@pytest.mark.parametrize(("kept", "count"), [(False, 4), (True, 1)])
def test_layers_beside_the_model_are_numbered_when_they_are_first_called(kept: bool, count: int) -> None:
    calls = train(Making(lambda: nn.Linear(3, 2), kept)).calls("module")
    assert len({call["args"]["hidden"] for call in calls if "hidden" in call["args"]}) == count


def evaluated(model: Any) -> list[dict[str, Any]]:
    model.eval()
    with recorded() as kept, torch.no_grad():
        model(torch.randn(8, 3))
    return kept.calls("dropout")


@pytest.mark.parametrize("kept", [False, True])
def test_a_dropout_that_eval_does_not_reach_is_told(kept: bool) -> None:
    assert [call["args"]["type"] for call in evaluated(Making(lambda: nn.Dropout(0.5), kept))] == ["Making"]


class Dropping(nn.Module):  # type: ignore[misc, name-defined]
    """A model that drops in its own code: by its mode, or always."""

    def __init__(self, by_mode: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.by_mode = by_mode

    def forward(self, x: Any) -> Any:
        return self._by_mode(self.layer(x)) if self.by_mode else nn.functional.dropout(self.layer(x), 0.5, True)

    def _by_mode(self, x: Any) -> Any:
        return nn.functional.dropout(x, 0.5, training=self.training)


@pytest.mark.parametrize(("by_mode", "told"), [(True, [(1, 1), (1, 0)]), (False, [(0, 0), (0, 0)])])
def test_a_module_that_drops_by_its_own_mode_counts_as_a_part_that_drops(
    by_mode: bool, told: list[tuple[int, int]]
) -> None:
    model = Dropping(by_mode)
    with recorded() as kept:
        for _ in range(2):
            model(torch.randn(8, 3)).sum().backward()
        model.eval()
        model(torch.randn(8, 3)).sum().backward()
    passes = [row["args"] for row in kept.calls("forward")]
    assert [(one.get("dropouts", 0), one.get("dropout", 0)) for one in passes[1:]] == told


def test_a_dropout_of_the_model_that_was_switched_on_is_meant() -> None:
    model = Making(nn.Identity, False)
    model.drop = nn.Dropout(0.5)
    model.make = lambda: model.drop
    assert evaluated(model) == []
    model.eval()
    model.drop.train()
    with recorded() as kept, torch.no_grad():
        model(torch.randn(8, 3))
    assert kept.calls("dropout") == []


def test_a_schedule_that_takes_the_place_of_another_has_a_number_of_its_own() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)
    with recorded() as kept:
        for _ in range(3):
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
            optimizer.step()
            schedule.step()
            del schedule
    assert [call["args"]["index"] for call in kept.calls("scheduler.step")] == [0, 1, 2]


def test_gradients_that_are_gathered_before_any_step_are_no_sign() -> None:
    model = Holding([nn.Parameter(torch.zeros(3))])
    with recorded() as kept:
        for _ in range(6):  # which of the inputs matter, over the data
            model(torch.randn(8, 3)).square().sum().backward()
        optimizer = torch.optim.SGD([*model.parameters(), *model.held], lr=0.1)
        for _ in range(4):
            model(torch.randn(8, 3)).square().sum().backward()
            optimizer.step()
    assert not numbers(kept, "leaf.left")


def test_gradients_that_are_accumulated_for_an_update_by_hand_are_no_sign() -> None:
    model = Holding([nn.Parameter(torch.zeros(3))])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(4):
            for _ in range(4):
                model(torch.randn(8, 3)).square().sum().backward()
            optimizer.step()
            with torch.no_grad():
                model.held[0] -= 0.1 * model.held[0].grad
    assert not numbers(kept, "leaf.left")


@pytest.mark.parametrize("comes", [False, True])
def test_what_the_optimizer_of_a_later_stage_may_take_is_left_alone(
    comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("preflight.monitor.collect.ahead.Ahead.comes", lambda self: comes)
    model = Holding([nn.Parameter(torch.zeros(3))])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recorded() as kept:
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(8, 3)).square().sum().backward()
            optimizer.step()
    assert bool(numbers(kept, "leaf.left")) is not comes
