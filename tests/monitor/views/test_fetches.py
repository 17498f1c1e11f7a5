"""Of the batches of loaders it is known which of them are trained on."""

from __future__ import annotations

from typing import Any

import pytest

from preflight.monitor.mini import Mini
from preflight.monitor.views.fetches import fetches_of

MEASURED = ("forward model", {"context": "nograd", "args": {"training": False}})


def fetched(loader: str, number: int = 0) -> list[Any]:
    return [
        (f"fetch {loader}", {"args": {"epoch": 0, "fetch": number}}),
        ("batch", {"loader": loader, "fetch": number}),
    ]


def trained(*rows: Any) -> dict[str, bool]:
    """By loader, whether its last batch is trained on, where a step on a model follows."""
    step = ("forward model", "backward", "step optimizer0:SGD")
    window = Mini({"model.weight": {}}).window(*rows, *step)
    return {fetch.batch.loader: fetch.trained for fetch in fetches_of(window)}


@pytest.mark.parametrize(
    "ended",
    [
        ("fetch held", {"args": {"epoch": 0, "fetch": 1}}),
        ("mode model", {"args": {"training": True}}),
    ],
    ids=["run to its end", "put into training mode"],
)
def test_an_evaluation_after_the_fetch_of_a_step_is_not_trained_on(ended: Any) -> None:
    assert trained(*fetched("train"), *fetched("held"), MEASURED, ended) == {"train": True, "held": False}


def test_what_a_teacher_is_shown_first_is_trained_on() -> None:
    teacher = ("forward teacher", {"context": "nograd", "args": {"training": False}})
    assert trained(*fetched("labelled"), *fetched("unlabelled"), teacher) == {"labelled": True, "unlabelled": True}
    student = ("mode model", {"args": {"training": True}})
    assert trained(*fetched("labelled"), *fetched("unlabelled"), teacher, student)["unlabelled"]
    assert trained(*fetched("only"), teacher, ("mode model", {"args": {"training": True}})) == {"only": True}
