"""What the recorder tells of a model that gives the same for all samples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


class Passing(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A layer whose input is multiplied by a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.factor = factor

    def forward(self, x: Any) -> Any:
        return self.layer(self.factor * x)


def told(model: Any, given: Any, **settings: Any) -> list[float]:
    with recorded(**settings) as kept:
        model(given).sum().backward()
    return [row["value"] for row in kept.table("scalar") if row["name"] == "outputs.alike"]


def test_equal_outputs_of_different_samples_are_told() -> None:
    assert told(Passing(0.0), torch.randn(8, 3)) == [1.0]
    assert told(Passing(1.0), torch.randn(8, 3)) == [0.0]


def test_two_equal_samples_among_others_say_nothing() -> None:
    given = torch.randn(8, 3)
    given[1] = given[0]
    assert told(Passing(1.0), given) == [0.0]


def test_samples_that_are_equal_themselves_say_nothing_of_the_model() -> None:
    assert told(Passing(1.0), torch.ones(8, 3)) == [0.0]


@pytest.mark.parametrize(
    ("model", "given", "settings"),
    [
        (Passing(0.0), torch.randn(7, 3), {}),
        (Passing(0.0).eval(), torch.randn(8, 3), {}),
        (Passing(0.0).requires_grad_(False), torch.randn(8, 3, requires_grad=True).detach(), {}),
        (Passing(0.0), torch.randn(8, 3), {"needs": ("scalar", "forward")}),
        (Passing(0.0), torch.randn(8, 3), {"detail_first": 0, "detail_every": 0}),
    ],
    ids=["too few", "evaluation", "nothing to train", "not wanted", "no detail"],
)
def test_it_is_told_of_passes_that_train_and_of_enough_samples(model: Any, given: Any, settings: Any) -> None:
    if not any(one.requires_grad for one in model.parameters()):
        with recorded(**settings) as kept:
            model(given)
        assert not [row for row in kept.table("scalar") if row["name"] == "outputs.alike"]
    else:
        assert told(model, given, **settings) == []


@pytest.mark.parametrize(("needs", "known"), [((), True), (("tensor", "forward", "module"), False)])
def test_norms_of_outputs_are_taken_where_something_looks_at_them(needs: tuple[str, ...], known: bool) -> None:
    with recorded(needs=needs) as kept:
        Passing(1.0)(torch.randn(8, 3)).sum().backward()
    rows = kept.table("tensor")
    assert {row["norm"] is not None for row in rows if row["position"] == "out0"} == {known}
    assert all(row["norm"] is not None for row in rows if row["object"].count(".") == 0 and row["position"] == "in0")
