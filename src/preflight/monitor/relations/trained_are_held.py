"""What gets gradients is held by an optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_ROUNDS = 2


class TrainedAreHeld(Relation):
    """Every trainable parameter that gets gradients is held by an optimizer, or changes in another way.

    A parameter that gets gradients step after step, belongs to no optimizer and never changes was forgotten: it came
    after the optimizer was made, sits in a plain list, belongs to a second network, or was meant to be frozen.
    Parameters that the program updates by hand do change, and are left alone.
    """

    name = "trained-are-held"
    needs = frozenset({"step", "state"})
    severity = "warning"
    priority = 8
    cause = (
        "the optimizer was made from a part of the parameters, or before they were added, replaced or registered; "
        "or they were meant to be frozen"
    )
    advice = "hand all of model.parameters() to the optimizer after the model is final, or set requires_grad to False on what is frozen"

    def __init__(self) -> None:
        self._bits: dict[int, int | None] = {}
        self._rounds: dict[int, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        variables = window.run.variables
        states = [
            one for one in window.states if one.moment == "before_step" and (one.extra or {}).get("optimizer") == -1
        ]
        with_gradient = {
            ident
            for state in states
            if state.what == "gradient"
            for ident, norm in zip(state.ids, state.norm, strict=True)
            if norm and ident in variables and variables[ident].optimizer < 0 and variables[ident].trainable
        }
        for state in states:
            if state.what != "parameter" or state.bits is None:
                continue
            wrong = []
            for ident, bits in zip(state.ids, state.bits, strict=True):
                still = bits is not None and self._bits.get(ident) == bits
                self._bits[ident] = bits
                if ident not in with_gradient:
                    self._rounds.pop(ident, None)
                    continue
                rounds = self._rounds[ident] = 1 + (self._rounds.get(ident, 0) if still else 0)
                if rounds >= _ROUNDS:
                    wrong.append(window.run.name(ident))
            steps = window.named("step")
            yield Example(
                (),
                not wrong,
                {"optimizers": len({variable.optimizer for variable in variables.values()} - {-1})},
                variables=tuple(wrong),
                expected="an optimizer that holds every trainable parameter with a gradient",
                seen=f"{len(wrong)} parameters with gradients are in no optimizer and do not change" if wrong else None,
                call=steps[-1] if steps else None,
                detail="Parameters get gradients, but no optimizer holds them and they never change" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}, "model.frozen": {"trainable": False, "optimizer": -1}})
        yield [mini.window(*_rows("model.frozen", None, 7)) for _ in range(3)]
        mini = Mini({"model.weight": {}, "table": {"optimizer": -1}})
        yield [mini.window(*_rows("table", 0.5, bits)) for bits in (7, 8, 9)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}, "decoder.weight": {"optimizer": -1}})
        yield [mini.window(*_rows("decoder.weight", 0.5, 7)) for _ in range(3)]


def _rows(name: str, norm: float | None, bits: int) -> tuple[object, ...]:
    unheld = {"optimizer": -1}
    return (
        "backward",
        ("before", {name: (1.0, bits)}, unheld),
        ("gradients", {name: norm}, unheld),
        "step optimizer0:SGD",
    )
