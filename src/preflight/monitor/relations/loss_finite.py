"""The loss that is trained on is finite."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Number, Window


class LossFinite(Relation):
    """A step that follows a backward pass is not taken on a loss that is infinite or not a number.

    After one step on such a loss most weights are not numbers either, and nothing brings them back.
    Steps that a gradient scaler takes are not judged, because it leaves out those whose gradients are not finite, and
    neither is a loss after whose backward pass no step follows.
    """

    name = "loss-finite"
    needs = frozenset({"backward", "step", "scalar"})
    whole = False
    priority = 8
    cause = "the rate is too high, a logarithm or a division met zero, or a number left the range of a low precision"
    advice = "look at the batch and the rate of this step, clip the gradients, and leave out steps with such a loss"

    def __init__(self) -> None:
        self._losses: list[Number] = []

    def see(self, window: Window) -> Iterator[Example]:
        events: list[tuple[int, Call | Number]] = [
            (call.q, call) for call in window.plain if call.name in ("step", "scaler.step", "zero_grad")
        ]
        events += [(one.q, one) for one in window.numbers if one.name == "loss"]
        scaled = {call.parent for call in window.named("step")} & {call.q for call in window.named("scaler.step")}
        for _, event in sorted(events, key=lambda pair: pair[0]):
            if isinstance(event, Number):
                self._losses.append(event)
            elif event.name == "scaler.step":
                self._losses = []
            elif event.name == "zero_grad":
                self._losses = [one for one in self._losses if one.q > event.q]
            elif event.parent not in scaled and self._losses:
                wrong = [one for one in self._losses if one.value is None or one.value - one.value != 0]
                self._losses = []
                yield Example(
                    (),
                    not wrong,
                    {"optimizer": event.object.split(":")[-1]},
                    variables=(event.object,) if wrong else (),
                    expected="a finite loss",
                    seen=str(wrong[0].value) if wrong else None,
                    call=event,
                    detail="The step follows a loss that is not finite" if wrong else "",
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
