"""Labels that are signs are 1 and -1."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Number, Window
from preflight.vocabulary.quantity import format_share

_NAME = "labels.unsigned"
_TIES = {"margin_ranking_loss": 0.25}


class LabelsHaveSigns(Relation):
    """A loss that takes 1 for what belongs together and -1 for what does not is given nothing else.

    ``cosine_embedding_loss``, ``hinge_embedding_loss``, ``soft_margin_loss`` and ``margin_ranking_loss`` look for exactly
    these numbers. With labels of 0 and 1 they complain of nothing: half of the pairs add nothing to the loss, and what the
    rest teaches is that everything is alike.
    Judged in the first calls of each place in the code. Of a ranking a quarter must be wrong: there 0 may stand for a tie.
    """

    name = "labels-have-signs"
    midway = True
    needs = frozenset({_NAME, "scalar"})
    wakes = frozenset({f"scalar {_NAME}"})
    whole = False
    priority = 4
    cause = "labels of 0 and 1 are given to a loss that takes -1 and 1"
    advice = "give 2 * labels - 1"

    def see(self, window: Window) -> Iterator[Example]:
        for number in window.numbers:
            if number.name == _NAME and number.value is not None:
                yield self._judge(number, number.value, window)

    @staticmethod
    def _judge(number: Number, share: float, window: Window) -> Example:
        loss = number.object.rpartition("#")[2]
        wrong = share > 0 and share >= _TIES.get(loss, 0.0)
        after = [call for call in window.named("backward") if call.q > number.q]
        return Example(
            (),
            not wrong,
            {"loss": loss},
            variables=(loss,) if wrong else (),
            expected="labels of 1 and -1",
            seen=f"{format_share(share)} of the labels are something else" if wrong else None,
            call=after[0] if after else None,
            detail=f"{loss} is given labels that are neither 1 nor -1" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _labelled("cosine_embedding_loss", 0.0)
        yield _labelled("margin_ranking_loss", 0.05)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _labelled("cosine_embedding_loss", 0.5)


def _labelled(loss: str, share: float) -> list[Window]:
    row = ("scalar", _NAME, f"train.py:9#{loss}", share)
    return [Mini({"model.weight": {}}).window(row, "backward", "step optimizer0:SGD")]
