"""A network that judges what another one makes is told of both kinds of samples."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Number, Window

_OWN, _THROUGH = "verdict.own", "verdict.through"
_ROUNDS = 5
"""Steps with several losses of a network, of which all said the same."""
_SEVERAL = 2


class VerdictsDiffer(Relation):
    """A network through which another one is trained is itself trained with labels of more than one kind.

    A discriminator says of some samples that they are real, and of others that they are made. Where both of its losses are
    given the same label (``label.fill_`` was forgotten, ``ones`` stands in both lines), it learns to say one thing of
    everything, and what is trained through it learns nothing.
    Judged are losses of one number for each sample, against a label of 0 or 1. Of a network that one optimizer holds, losses
    are looked at that train it alone, and losses that train a network of another optimizer through it: it is
    broken where there are two and more of the first kind before each of five steps, some of the second, and every label
    so far was the same one. A loss that compares two verdicts with one another is left out, as a relativistic one does.
    """

    name = "verdicts-differ"
    needs = frozenset({_OWN, "scalar", "backward", "step"})
    wakes = frozenset({f"scalar {_OWN}", f"scalar {_THROUGH}"})
    severity = "warning"
    priority = 8
    cause = "the labels of real and of made samples are the same, as where a tensor of labels was not filled anew"
    advice = "give the loss of real samples ones and that of made ones zeros"

    def __init__(self) -> None:
        self._labels: dict[str, set[float | None]] = {}  # by optimizer
        self._through: set[str] = set()
        self._rounds: dict[str, int] = {}
        self._last: dict[
            str, tuple[int, int]
        ] = {}  # by optimizer: after which step, and how many losses of its own since

    def see(self, window: Window) -> Iterator[Example]:
        own: dict[str, list[Number]] = {}
        for number in sorted(window.numbers, key=ORDER):
            if number.name not in (_OWN, _THROUGH):
                continue
            judge = number.object.rpartition("#")[2]
            self._labels.setdefault(judge, set()).add(number.value)
            if number.name == _THROUGH:
                self._through.add(judge)
                continue
            own.setdefault(judge, []).append(number)
            step, count = self._last.get(judge, (-1, 0))
            self._last[judge] = number.s, count + 1 if step == number.s else 1
            # A loss may lie in the iteration before, where the program clears gradients before the first of them.
            self._rounds[judge] = self._rounds.get(judge, 0) + (self._last[judge][1] == _SEVERAL)
        for judge, numbers in own.items():
            yield self._judge(judge, numbers, window)

    def _judge(self, judge: str, numbers: list[Number], window: Window) -> Example:
        labels = self._labels[judge]
        alike = len(labels) == 1 and labels <= {0.0, 1.0}
        wrong = alike and judge in self._through and self._rounds[judge] >= _ROUNDS
        held = [one.name for one in window.run.variables.values() if f"optimizer{one.optimizer}" == judge]
        after = [call for call in window.named("backward") if call.q > numbers[-1].q]
        return Example(
            (),
            not wrong,
            {},
            variables=(judge, *held, *dict.fromkeys(one.object.split("#")[0] for one in numbers)) if wrong else (),
            expected="labels of samples that are real, and of samples that are made" if wrong else None,
            seen=f"{next(iter(labels)):g} for all of them, in {self._rounds[judge]} steps" if wrong else None,
            call=after[0] if after else None,
            detail=f"What {judge} trains is told the same of all samples" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run((1.0, 0.0))
        yield _run((1.0, 0.5))
        yield _run((1.0,))
        yield _run((1.0, 1.0), through=False)  # a label that is rare
        yield _run((1.0, 1.0), of_made=0.0)  # it is told of what is made where gradients flow on

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((1.0, 1.0))


def _run(labels: tuple[float, ...], through: bool = True, of_made: float = 1.0) -> list[Window]:
    mini = Mini({"judge.weight": {}, "maker.weight": {"optimizer": 1}})
    told = [("scalar", _OWN, f"train.py:{8 + at}#mse_loss#optimizer0", label) for at, label in enumerate(labels)]
    made = [("scalar", _THROUGH, "train.py:12#mse_loss#optimizer0", of_made)] if through else []
    rows = (*told, "backward", "step optimizer0:Adam", *made, "backward", "step optimizer1:Adam")
    return [mini.window(*rows) for _ in range(_ROUNDS + 1)]
