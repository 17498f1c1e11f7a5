"""The ratio of a policy to the one that acted moves with training."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.quantity import format_share

_ONE, _AGAIN = "ratio.one", "ratio.again"
_LOOKS = 2


class RatiosMove(Relation):
    """Where a policy is trained again on samples that it has been trained on, its ratio to the one that acted is not one.

    A loss that clips the ratio of two policies (PPO and its kin) compares the policy that is trained with the one that
    chose the actions. Where the logarithms of that one are computed anew in each step, or are the new ones detached, the
    ratio is one for ever: nothing is ever clipped, and the second epoch over the same samples follows a gradient that is
    none of the objective.
    Judged are exponentials that a loss clips. With fresh samples in each step the ratio is one by right; it is broken where
    all ratios are exactly one in two looks in a row although some of the samples were there in an earlier step.
    """

    name = "ratios-move"
    needs = frozenset({"backward", "scalar", _ONE})
    wakes = frozenset({f"scalar {_ONE}"})
    whole = False
    severity = "warning"
    priority = 8
    cause = "the old log-probabilities are computed with the policy as it is now, or are the new ones detached"
    advice = "store the log-probabilities when the actions are chosen, and read them in every epoch over these samples"

    def __init__(self) -> None:
        self._still: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        again = {number.object: number.value or 0.0 for number in window.numbers if number.name == _AGAIN}
        for number in window.numbers:
            if number.name != _ONE or number.value is None:
                continue
            place = number.object
            if not number.value:
                self._still[place] = 0
            elif again.get(place):
                self._still[place] = self._still.get(place, 0) + 1
            wrong = self._still.get(place, 0) >= _LOOKS
            yield Example(
                (),
                not wrong,
                {},
                variables=("ratio", place) if wrong else (),
                expected="ratios that are others once the policy has changed" if wrong else None,
                seen=f"all ratios are exactly 1, and {format_share(again.get(place, 0))} of the samples are trained on again"
                if wrong
                else None,
                call=next((one for one in reversed(window.named("backward")) if one.q > number.q), None),
                detail=f"The ratio that the loss at {place} clips compares the policy with itself" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run((1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, 0.5))
        yield _run((1.0, 0.0), (1.0, 0.0), (1.0, 0.0))  # fresh samples in each step
        yield _run((1.0, None), (1.0, None), (1.0, None))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run((1.0, 0.0), (1.0, 1.0), (1.0, 0.25))


def _run(*looks: tuple[float, float | None]) -> list[Window]:
    mini = Mini({"policy.weight": {}})
    word = "train.py:9"
    found = []
    for one, again in looks:
        rows = [("scalar", _ONE, word, one), *([("scalar", _AGAIN, word, again)] if again is not None else [])]
        found.append(mini.window(*rows, "backward", "step optimizer0:SGD"))
    return found
