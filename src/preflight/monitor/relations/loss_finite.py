"""The loss that is trained on is finite."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Number, Window


class LossFinite(Relation):
    """A step that follows a backward pass is not taken on a loss that is infinite or not a number.

    After one step on such a loss most weights are not numbers either, and nothing brings them back.
    Steps that a gradient scaler takes are not judged, because it leaves out those whose gradients are not finite, and
    neither is a loss after whose backward pass no step follows.
    """

    name = "loss-finite"
    midway = True
    category = "numerical"
    needs = frozenset({"backward", "step", "scalar"})
    wakes = frozenset({"scalar loss", "step", "scaler.step", "zero_grad"})
    repeats = 2
    looks = frozenset({"step", "scaler.step", "zero_grad", "backward", "numbers"})
    whole = False
    priority = 8
    cause = "the rate is too high, a logarithm or a division met zero, or a number left the range of a low precision"
    advice = "look at the batch and the rate of this step, clip the gradients, and leave out steps with such a loss"

    def __init__(self) -> None:
        self._losses: list[Number] = []

    def see(self, window: Window) -> Iterator[Example]:
        events: list[Call | Number] = [one for one in window.numbers if one.name == "loss"]
        for name in ("step", "scaler.step", "zero_grad"):
            events += window.named(name)
        scaled = {call.q for call in window.named("scaler.step")}
        for event in sorted(events, key=ORDER):
            if isinstance(event, Number):
                self._losses.append(event)
            elif event.name == "scaler.step":
                self._losses = []
            elif event.name == "zero_grad":
                self._losses = [one for one in self._losses if one.q > event.q]
            elif event.parent not in scaled and self._losses:
                wrong = [one for one in self._losses if one.value is None or one.value - one.value != 0]
                self._losses = []
                context = {"optimizer": event.object.split(":")[-1]}
                if not wrong:
                    yield Example((), True, context)
                    continue
                yield Example(
                    (),
                    False,
                    context,
                    variables=(event.object,),
                    expected="a finite loss",
                    seen=str(wrong[0].value),
                    call=event,
                    detail="The step follows a loss that is not finite",
                )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.5)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(float("nan"))
        yield _run(float("inf"))


def _run(loss: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("forward model", "backward", ("loss", loss), "step optimizer0:SGD")]
