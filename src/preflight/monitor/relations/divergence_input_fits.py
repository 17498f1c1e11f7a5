"""A divergence is given what it expects."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Number, Window

_NEARLY_ALL = 0.95
_LOOKS = 3
_WRONG = {
    "divergence.positive": (
        "logarithms of probabilities, which are at most 0",
        "numbers above 0, as probabilities are",
        "The divergence is given probabilities where their logarithms belong",
    ),
    "divergence.itself": (
        "a distribution that is trained",
        "two equal distributions that hang on nothing that is trained",
        "The divergence compares a distribution with itself, and nothing learns from it",
    ),
    "divergence.crosswise": (
        "two distributions over the same axis",
        "one that sums to one over one axis, and one that does over another",
        "The divergence compares a distribution over one axis with one over another",
    ),
}


class DivergenceInputFits(Relation):
    """A Kullback-Leibler divergence is given logarithms of probabilities, of something that is trained.

    ``kl_div`` takes logarithms as its input and probabilities as its target.
    Given probabilities twice it computes a number without a complaint, which falls where the prediction grows.
    Where the teacher stands on both sides of a distillation it is zero in every step, and the student learns of the
    labels alone. Where the softmax of one side goes over the samples, each sample of the other one is compared with nothing.
    Judged are calls that record gradients: where nearly all of the input is above zero; where input and target are
    equal three times in a row and neither of them hangs on anything that is trained; and where both sum to one over a
    single axis, and not over the same.
    """

    name = "divergence-input-fits"
    midway = True
    needs = frozenset({"scalar"})
    wakes = frozenset({f"scalar {name}" for name in _WRONG})
    whole = False
    priority = 3
    cause = "softmax stands where log_softmax belongs or goes over another axis, or the teacher's scores stand where the student's belong"
    advice = "give kl_div log_softmax of the student's scores as its input, and softmax of the teacher's as its target"

    def __init__(self) -> None:
        self._equal: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name in _WRONG and number.value is not None:
                yield self._example(number, number.value, window)

    def _example(self, number: Number, value: float, window: Window) -> Example:
        if number.name != "divergence.itself":
            wrong = value >= _NEARLY_ALL
        else:
            count = self._equal[number.object] = self._equal.get(number.object, 0) + 1 if value else 0
            wrong = count >= _LOOKS
        expected, seen, detail = _WRONG[number.name]
        passes = [call for call in window.named("backward") if call.q > number.q]
        return Example(
            (),
            not wrong,
            {},
            variables=("kl_div",) if wrong else (),
            expected=expected,
            seen=seen if wrong else None,
            call=passes[0]._replace(place=number.object) if passes else None,
            detail=detail if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("divergence.positive", [0.0, 0.0])
        yield _run("divergence.itself", [1.0, 1.0, 0.0, 1.0])
        yield _run("divergence.crosswise", [0.0])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("divergence.positive", [1.0])
        yield _run("divergence.itself", [1.0, 1.0, 1.0])
        yield _run("divergence.crosswise", [1.0])


def _run(name: str, values: list[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window(("scalar", name, "train.py:7", value), "backward", "step optimizer0:SGD") for value in values]
