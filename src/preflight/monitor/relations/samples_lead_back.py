"""What is drawn from a distribution leads back to the network that gave it."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Number, Window

_NAME = "sample.off"
_NONE = 1e-4
"""As far as rounding may bring a gradient from a constant share of what it is the gradient of."""
_ROUNDS = 2


class SamplesLeadBack(Relation):
    """A network that gives a distribution is taught by what becomes of its samples.

    ``Normal.sample()`` draws numbers without a graph. In a variational autoencoder the reconstruction then never reaches
    the encoder: the divergence from the standard normal is all that does, and draws every mean to zero. The loss falls, as
    the decoder learns to answer without being told anything. ``rsample()`` draws the same numbers with a graph.
    Judged are draws with ``sample()`` from a normal distribution whose mean has a graph, where gradients come to that mean.
    It is broken where these are a constant share of the mean, to the digit, in two looks in a row at one place: nothing but
    a pull towards zero is in them. What an agent draws is told by the probability of it, and is left alone; so is a sample
    that is not to lead back where something else teaches the network.
    """

    name = "samples-lead-back"
    needs = frozenset({_NAME, "scalar", "backward"})
    wakes = frozenset({f"scalar {_NAME}"})
    whole = False
    priority = 6
    cause = "the distribution is drawn from with sample(), which has no graph"
    advice = "draw with rsample()"

    def __init__(self) -> None:
        self._rounds: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name == _NAME and number.value is not None:
                yield self._judge(number, number.value, window)

    def _judge(self, number: Number, off: float, window: Window) -> Example:
        rounds = self._rounds[number.object] = self._rounds.get(number.object, 0) + 1 if off < _NONE else 0
        wrong = rounds >= _ROUNDS
        passes = [call for call in window.named("backward") if call.q < number.q]
        return Example(
            (),
            not wrong,
            {},
            variables=("sample", number.object) if wrong else (),
            expected="gradients of what becomes of the samples" if wrong else None,
            seen="gradients of the mean that are a constant share of the mean itself" if wrong else None,
            call=passes[-1] if passes else None,
            detail=f"What is drawn at {number.object} does not lead back to the network, which is drawn to zero alone"
            if wrong
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _drawn(0.9, 1.0, 0.7)
        yield _drawn(1e-8, 0.9, 1e-8)  # an encoder that nothing else had reached yet, once

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _drawn(1e-8, 2e-8)


def _drawn(*off: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    row = "train.py:9"
    return [mini.window("backward", ("scalar", _NAME, row, one), "step optimizer0:SGD") for one in off]
