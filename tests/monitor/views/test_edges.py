"""What is another on the way to a loss is said in few words."""

from __future__ import annotations

import pytest

from preflight.monitor.relation import relations
from preflight.monitor.views.edges import departure, named, owner

_CONVOLUTION = "Convolution(transposed=False stride=1x1){net.up.bias,net.up.weight}[0]"
_NORM = "NativeGroupNorm(eps=1e-05){net.norm.bias,net.norm.weight}"
_RELU = "Relu at net.down.bias,net.down.weight"


@pytest.mark.parametrize(
    ("learnt", "seen", "said"),
    [
        ([f"{_CONVOLUTION}<{_NORM}"], [f"{_CONVOLUTION}<{_RELU}"],
         "Convolution of net.up takes Relu after net.down instead of GroupNorm of net.norm"),
        (["Mul<LogSoftmax(-1)"], ["Mul<LogSoftmax(-2)"], "Mul takes LogSoftmax(-2) instead of LogSoftmax(-1)"),
        (["Add<Mul", "Add<Mean"], ["Add<Mul"], "Add no longer takes Mean"),
        (["Add<Mul"], ["Add<Mul", "loss<Add"], "the loss takes Add, and did not"),
        (["Relu[0]<given"], ["Relu[0]<leaf"], "Relu takes a number of the program's own instead of the input"),
        (["Mul<Exp"], ["Mul<Exp"], ""),
        ([f"Add<{one}" for one in ("Exp", "Sum")] + ["Exp[0]<Mul", "Sum[0]<Mul"], ["loss<Mul"],
         "Add no longer takes Exp and Sum; Exp no longer takes Mul; and 2 more"),
    ],
)  # fmt: skip
def test_what_is_another_is_said(learnt: list[str], seen: list[str], said: str) -> None:
    assert departure([learnt], seen) == said


def test_the_nearest_of_several_ways_is_compared() -> None:
    ways = [["loss<Mean", "Mean[0]<Pow"], ["loss<Sum", "Sum[0]<Abs"]]
    assert departure(ways, ["loss<Sum", "Sum[0]<Exp"]) == "Sum takes Exp instead of Abs"


def test_parameters_are_named_by_their_module() -> None:
    assert owner("net.fc.bias,net.fc.weight") == "net.fc"
    assert owner("net.a.weight,net.b.weight") == "net.a.weight,net.b.weight"
    assert owner("scale") == "scale"
    assert named([f"{_CONVOLUTION}<{_RELU}"]) == (
        "Convolution(transposed=False stride=1x1)[0] of net.up takes Relu after net.down"
    )


def test_an_alarm_says_what_departs_from_what_was_learnt() -> None:
    known = relations()
    layers = known["layers-alike"].departure(
        {"called": "net", "value": ["net.a (Linear)", "net.n (BatchNorm1d)"]}, ["net.a (Linear)", "net.s (Tanh)"]
    )
    assert layers == (
        "net is trained without net.n (BatchNorm1d) and also through net.s (Tanh), other than in the runs this was learnt from"
    )
    loss = known["losses-end-alike"].departure(
        {"which": 0, "value": "LogSoftmax(2, -1) NllLoss"}, "NllLoss Softmax(2, -1)"
    )
    assert loss == (
        "The loss is computed without LogSoftmax(2, -1) and with Softmax(2, -1), other than in the runs this was learnt from"
    )
    way = known["operations-alike"].departure(
        {"which": 1, "at": "net.fc.bias,net.fc.weight", "value": "loss<Mean"}, "loss<Sum"
    )
    assert way == (
        "What net.fc gives for the loss number 2 is used in another way than it was learnt: the loss takes Sum instead of Mean"
    )


@pytest.mark.parametrize("name", ["layers-alike", "losses-end-alike", "operations-alike"])
def test_no_headline_is_made_of_parts_that_are_the_same(name: str) -> None:
    value = ["net.a (Linear)"] if name == "layers-alike" else "Mean<Pow"
    assert relations()[name].departure({"which": 0, "at": "net.a.weight", "value": value}, value) == ""
