"""A loss of the same tensors stands in a sum once."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_REACHED, _SAME = "term.reached", "term.same"
_IN_A_ROW = 3


class TermsStandOnce(Relation):
    """Two losses in one sum are not the same function of the very same tensors.

    A contrastive loss has two directions, from pictures to texts and back: where the second one is given the same scores and
    not the transposed ones, it is the first one again, and only one side learns to tell samples apart. A term that was
    copied and not changed, or added in two places, counts twice.
    Judged are losses of ``torch.nn.functional``, reduced to one number, that are added up with constant shares, and that one
    backward pass comes to with gradients that are not zero: one that is weighed by itself, as a focal loss is, is another, and
    mixed labels that are not mixed have a share of zero. They must be given the same tensors (or, where each sample is
    its own class, the same scores) and the same options in three iterations in a row.
    """

    name = "terms-stand-once"
    midway = True
    needs = frozenset({"backward", "scalar", _REACHED, _SAME})
    wakes = frozenset({f"scalar {_REACHED}"})
    whole = False
    severity = "warning"
    priority = 9
    cause = "the second direction of a contrastive loss is given the scores untransposed, or a term was added twice"
    advice = "give the second direction the transposed scores, or drop the second term"

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        reached = [one for one in window.numbers if one.name == _REACHED]
        if not reached:
            return
        same = {one.object for one in window.numbers if one.name == _SAME and one.value == 1.0}
        self._rows = {pair: min(self._rows.get(pair, 0) + 1, _IN_A_ROW) for pair in same}
        wrong = [pair for pair, rows in self._rows.items() if rows >= _IN_A_ROW]
        if not wrong:
            yield Example((), True, {})
        for pair in wrong:
            first, second = (word.split("#") for word in pair.split("+")[:2])
            yield Example(
                (),
                False,
                {},
                variables=(first[-1], first[0], *([second[0]] if second[0] != first[0] else [])),
                expected="two losses of different tensors",
                seen=f"{first[-1]} at {first[0]} and at {second[0]}, both of the same tensors",
                call=next(iter(window.named("backward")), None),
                detail=f"The loss holds the {first[-1]} of the same tensors twice",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([None, None, None, None])
        yield _run([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])  # labels that are mixed in every second iteration

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([1.0, 1.0, 1.0, 1.0])


def _run(told: list[float | None]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    words = [f"train.py:{line}#0#cross_entropy" for line in (5, 6)]
    windows = []
    for value in told:
        same = [("scalar", _SAME, "+".join(words), value)] if value is not None else []
        reached = [("scalar", _REACHED, f"{word}#NllLoss", 1.0) for word in words]
        windows.append(mini.window("backward", "step optimizer0:SGD", *reached, *same))
    return windows
