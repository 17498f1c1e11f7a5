"""Losses that are given a target of another size, whatever the program does with PyTorch's warning."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.monitor.collect.recording import Kept, recorded  # noqa: E402

from preflight.monitor.relation import Example  # noqa: E402
from preflight.monitor.relations.loss_shapes_agree import LossShapesAgree  # noqa: E402


def judged(kept: Kept) -> list[Example]:
    relation = LossShapesAgree()
    return [example for window in kept.windows() for example in relation.see(window)]


@pytest.mark.parametrize("shown", ["ignore", "collect"])
@pytest.mark.parametrize("kind", [torch.nn.MSELoss, torch.nn.L1Loss, torch.nn.SmoothL1Loss, torch.nn.HuberLoss])
def test_it_is_noted_once_whatever_becomes_of_the_warning(kind: type[torch.nn.Module], shown: str) -> None:
    model, loss = torch.nn.Linear(3, 1), kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings(record=True), recorded() as kept:
        # What is shown is told by Python, too.
        warnings.simplefilter("ignore" if shown == "ignore" else "always")
        if shown == "always":
            warnings.showwarning = lambda *_, **__: None
        for _ in range(3):
            optimizer.zero_grad()
            loss(model(torch.ones(8, 3)).detach() + model.weight.sum(), torch.zeros(8)).backward()
            optimizer.step()
    (row,) = kept.table("warning")
    assert row["message"].startswith("Using a target size (torch.Size([8])) that is different to the input size")
    assert [example.holds for example in judged(kept)][:1] == [False]


@pytest.mark.parametrize("target", [(8, 1), (), (1,)])
def test_a_target_of_the_size_of_the_prediction_or_of_one_number_is_meant(target: tuple[int, ...]) -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings(), recorded() as kept:
        warnings.simplefilter("ignore")
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(torch.ones(8, 3)), torch.zeros(target)).backward()
            optimizer.step()
    assert len(kept.table("warning")) == (target != (8, 1))
    assert all(example.holds for example in judged(kept))


@pytest.mark.parametrize("given", ["one for all", "all with all"])
def test_sizes_that_are_stretched_on_purpose_are_no_violation(given: str) -> None:
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings(), recorded() as kept:
        warnings.simplefilter("ignore")
        for _ in range(3):
            optimizer.zero_grad()
            out, target = model(torch.randn(8, 3)), torch.randn(8, 4)
            if given == "one for all":
                torch.nn.functional.mse_loss(out, target[:1]).backward()
            else:
                pairs = torch.nn.functional.huber_loss(out[:, None], target[:, :, None], reduction="none")
                pairs.mean().backward()
            optimizer.step()
    assert kept.table("warning")
    assert all(example.holds for example in judged(kept))
