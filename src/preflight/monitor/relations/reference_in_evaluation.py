"""A model that is only read does not drop."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window

_STEPS = 2


class ReferenceInEvaluation(Relation):
    """A model that rests and is only read in each step of another one's training is in evaluation mode.

    A reference, a teacher or a reward model that is left in training mode drops: what the trained model is compared with
    is another thing each time, and a divergence that should begin at zero does not.
    Judged are models that drop, that no optimizer has, whose weights stay as they are, and that are called without
    gradients between two steps; a teacher whose weights follow those of the student is left alone.
    """

    name = "reference-in-evaluation"
    needs = frozenset({"forward", "step", "state"})
    wakes = frozenset({"forward", "exact parameter at before_step"})
    repeats = 3
    looks = frozenset({"forward", "step", "backward"})
    reads = frozenset({"exact parameter at before_step"})
    severity = "warning"
    priority = 18
    cause = "the model was made or loaded in training mode, or train() was called on a module that holds both"
    advice = "call eval() on the model that is only read, after every train() on what contains it"

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}
        self._looks: dict[str, int] = {}  # by root: how often its weights were looked at and had not changed
        self._moving: set[str] = set()
        self._trained: set[str] = set()
        self._counts: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        self._look(window)
        read: dict[str, Call] = {}
        for call in window.named("forward"):
            root = call.object.split(".")[0]
            if (call.context or "").startswith("grad"):
                self._trained.add(root)
            elif (call.args or {}).get("dropouts"):
                read[call.object] = call
        if not window.named("step") or not window.named("backward"):
            return
        held = window.run.trained()
        for name, call in read.items():
            root = name.split(".")[0]
            if root in self._trained or root in held:
                continue
            if root in self._moving:
                yield Example((), True, {"model": name})
                continue
            drops = bool((call.args or {}).get("dropout"))
            self._counts[name] = self._counts.get(name, 0) + 1 if drops else 0
            wrong = self._counts[name] >= _STEPS and self._looks.get(root, 0) >= 1
            if drops and not wrong:
                continue  # not to be told yet
            yield Example(
                (),
                not wrong,
                {"model": name},
                variables=(name,) if wrong else (),
                expected="evaluation mode",
                seen="training mode, with dropout active" if wrong else None,
                call=call,
                detail=f"{name}, which is only read, is in training mode and drops" if wrong else "",
            )

    def _look(self, window: Window) -> None:
        for state in window.states:
            if state.what != "parameter" or state.bits is None or state.moment != "before_step":
                continue
            rested: set[str] = set()
            for ident, bits in zip(state.ids, state.bits, strict=True):
                known = window.run.variables.get(ident)
                if known is None or bits is None:
                    continue
                if self._bits.get(ident, bits) != bits:
                    self._moving.add(known.root)
                else:
                    rested.add(known.root)
                self._bits[ident] = bits
            for root in rested:
                self._looks[root] = self._looks.get(root, -1) + 1

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(dropout=0, bits=(1, 1, 1))
        yield _run(dropout=1, bits=(1, 2, 3))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(dropout=1, bits=(1, 1, 1))


def _run(dropout: int, bits: tuple[int, ...]) -> list[Window]:
    mini = Mini({"model.weight": {}, "teacher.weight": {"optimizer": -1, "trainable": False}})
    read = {"context": "nograd", "args": {"training": bool(dropout), "dropouts": 1, "dropout": dropout}}
    return [
        mini.window(
            ("forward teacher", read),
            "backward",
            ("before", {"teacher.weight": (1.0, one)}, {"optimizer": -1}),
            "step optimizer0:SGD",
        )
        for one in bits
    ]
