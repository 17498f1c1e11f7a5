"""Shares of classes that a cross entropy is to find add up to one."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_SUMS = "targets.sums"
_SOME = 0.1


class ClassTargetsAddUp(Relation):
    """Class probabilities that a cross entropy is given as targets do not add up to more than one for a sample.

    The loss takes them as they are. Where a sample has several classes at once, each marked with a one, classes that all
    belong to it compete for it, and no scores bring the loss to its floor for each of them: what is meant is a loss over
    independent labels. Labels that were mixed or smoothed by hand add up to more where a share is counted twice.
    Judged in the first backward passes of each place in the code, of the mean that ``cross_entropy`` computes by itself: a
    tenth of the samples must have more than one, and all targets must lie between 0 and 1, so that no weights are taken
    for probabilities. What a program weighs and adds up by itself is left alone, and so are as many classes as samples, as
    where each sample is compared with each other one.
    """

    name = "class-targets-add-up"
    midway = True
    needs = frozenset({"backward", "scalar", _SUMS})
    wakes = frozenset({f"scalar {_SUMS}"})
    whole = False
    severity = "warning"
    priority = 4
    cause = "samples have several labels, and the loss is one for classes that exclude each other"
    advice = "use BCEWithLogitsLoss for labels that do not exclude each other, or divide the targets of a sample by their sum"

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name != _SUMS or number.value is None:
                continue
            wrong = number.value >= _SOME
            begun = [one for one in window.named("backward") if one.q < number.q]
            yield Example(
                (),
                not wrong,
                {},
                variables=("cross_entropy",) if wrong else (),
                expected="probabilities of classes that add up to 1" if wrong else None,
                seen=f"targets that add up to more than 1 for {number.value:.0%} of the samples" if wrong else None,
                call=begun[-1] if begun else None,
                detail="cross_entropy is given several classes for one sample as though each were certain"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.0)
        yield _run(0.05)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.6)


def _run(share: float) -> list[Window]:
    return [Mini({"model.weight": {}}).window("backward", ("scalar", _SUMS, "train.py:9#CrossEntropy", share))]
