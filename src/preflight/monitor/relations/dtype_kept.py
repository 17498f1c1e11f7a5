"""Parameters keep their dtype while they are trained."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Variable, Window
from preflight.vocabulary.counted import counted


class DtypeKept(Relation):
    """A parameter has the same dtype at a step as at the step before.

    ``model.half()`` for an evaluation or for saving changes the parameters in place. Where nobody turns them back, the
    optimizer goes on in the lower precision, in which small updates are lost.
    A change to a wider dtype, and one with a new optimizer, are left alone.
    """

    name = "dtype-kept"
    midway = True
    needs = frozenset({"step"})
    wakes = frozenset({"step", "variable"})
    repeats = 2
    looks = frozenset({"step"})
    whole = False
    severity = "warning"
    priority = 15
    cause = "the model was cast in place (half(), to(dtype)) after its training had begun"
    advice = "cast a copy of the model, or what is saved, and not the model in training"

    def __init__(self) -> None:
        self._known: dict[int, Variable] = {}
        self._narrowed: dict[int, list[str]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for one in window.changed:
            before = self._known.get(one.id)
            self._known[one.id] = one
            if before is None or one.kind != "parameter" or one.optimizer < 0 or before.optimizer != one.optimizer:
                continue
            if _width(one.dtype) < _width(before.dtype):
                self._narrowed.setdefault(one.optimizer, []).append(one.name)
        for call in window.named("step"):
            names = tuple(self._narrowed.pop(optimizer_number(call), ())) if self._narrowed else ()
            context = {"optimizer": call.object.split(":")[-1]}
            if not names:
                yield Example((), True, context)
                continue
            yield Example(
                (),
                False,
                context,
                variables=names,
                expected="the dtype of the step before",
                seen=counted(len(names), "parameter with a narrower one", "parameters with a narrower one"),
                call=call,
                detail="Parameters were cast to a narrower dtype between two steps",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini()
        first = mini.window(("variable", "model.weight", {}), "step optimizer0:SGD")
        yield [first, mini.window(("variable", "model.weight", {"trainable": False}), "step optimizer0:SGD")]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini()
        first = mini.window(("variable", "model.weight", {}), "step optimizer0:SGD")
        yield [first, mini.window(("variable", "model.weight", {"dtype": "float16"}), "step optimizer0:SGD")]


def _width(dtype: str) -> int:
    return {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}.get(dtype, 0)
