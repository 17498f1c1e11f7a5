"""A rate is not too small for the precision of the weights."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window
from preflight.vocabulary.quantity import format_share

_NAME = "weights.too_large"
_NEARLY = 0.95
"""The share of the weights of a matrix that must be too large for the rate."""
_HALF = 0.5
"""The share of all matrices of an optimizer that such matrices must be."""


class RatesOutlastRounding(Relation):
    """Of weights in half precision more than a few can be changed by an update of the size of the rate.

    A number in bfloat16 has eight bits, one in float16 eleven. Where the weights themselves are kept in one of them, and the
    rate is small beside them, nearly every update is rounded away in the moment in which it is added: the loss comes down a
    little, by the few weights that are next to nothing, and then no more.
    Judged are the optimizers that change a weight by about the rate (Adam and its kin, of PyTorch itself), once, before the
    second step, at the largest rate that a group is known to come to: ``lr``, or the ``initial_lr`` or ``max_lr`` that a
    schedule has put there. It is broken where 95 of 100 weights are too large in matrices that make up half of
    all that the optimizer trains.
    """

    name = "rates-outlast-rounding"
    needs = frozenset({"step", "scalar", _NAME})
    wakes = frozenset({"step", f"scalar {_NAME}"})
    repeats = 3
    looks = frozenset({"step"})
    reads = frozenset({f"scalar {_NAME}"})
    whole = False
    severity = "warning"
    priority = 18
    cause = "the weights were cast to half precision, and no copy in float32 is kept that the optimizer steps"
    advice = "keep the weights in float32 and compute under autocast, or step a float32 copy and cast it back"

    def see(self, window: Window) -> Iterator[Example]:
        found = [(one.object, one.value or 0.0) for one in window.numbers if one.name == _NAME]
        steps = steps_of(window)
        if not steps and not found:
            return
        shares = {name.rpartition("#")[0]: (float(name.rpartition("#")[2]), value) for name, value in found}
        lost = [name for name, (_, value) in shares.items() if value >= _NEARLY]
        wrong = sum(shares[name][0] for name in lost) >= _HALF
        least = min((shares[name][1] for name in lost), default=0.0)
        yield Example(
            (),
            not wrong,
            {},
            variables=tuple(lost) if wrong else (),
            expected="updates that most of the weights can take in" if wrong else None,
            seen=f"{format_share(least)} of the weights and more round them away" if wrong else None,
            call=steps[-1].call if steps else None,
            detail="The rate is too small for weights in half precision: updates are rounded away" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(("net.0.weight#0.6", 0.5), ("net.2.weight#0.4", 1.0))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(("net.0.weight#0.6", 0.97), ("net.2.weight#0.4", 0.5))


def _run(*told: tuple[str, float]) -> list[Window]:
    mini = Mini({"net.0.weight": {}, "net.2.weight": {}})
    rows = [("scalar", _NAME, name, value) for name, value in told]
    return [mini.window("backward", *extra, "step optimizer0:AdamW") for extra in ([], rows, [])]
