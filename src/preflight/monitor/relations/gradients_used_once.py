"""Gradients are used once."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.steps import steps_of
from preflight.monitor.window import Window


class GradientsUsedOnce(Relation):
    """The gradients of a parameter are used by one step.

    Two steps on the same gradients, without a backward pass between them, update twice: an optimizer that is stepped
    beside the loss scaler or the trainer, or two optimizers that hold the same parameter.
    A step within another one (a wrapper that shards or accumulates) is part of it. A step with a closure computes its gradients itself and is left out.
    """

    name = "gradients-used-once"
    needs = frozenset({"step", "state", "backward"})
    priority = 14
    cause = "optimizer.step() is called twice (beside scaler.step() or a trainer), or a parameter is in two optimizers that both step"
    advice = "step each optimizer once per backward pass, and give each parameter to one optimizer"

    def __init__(self) -> None:
        self._passes = 0
        self._used: dict[int, tuple[int, float, str]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        steps = {step.call.q: step for step in steps_of(window)}
        for call in window.plain:
            if call.name in ("backward", "autograd.grad"):
                self._passes += 1
            step = steps.get(call.q)
            if step is None or step.gradients is None or step.closure:
                continue
            if any(other.call.q < call.q < other.call.e for other in steps.values()):
                continue  # the part of a wrapping optimizer's step that does the work
            wrong, others = [], set()
            for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True):
                if not norm or norm != norm:
                    continue
                before = self._used.get(ident)
                if before is not None and before[:2] == (self._passes, norm):
                    wrong.append(window.run.name(ident))
                    others.add(before[2])
                self._used[ident] = (self._passes, norm, call.object)
            yield Example(
                (),
                not wrong,
                {"optimizer": step.kind},
                variables=tuple(wrong),
                expected="a backward pass between two steps on the same parameters",
                seen=f"{len(wrong)} gradients that a step of {', '.join(sorted(others))} used already"
                if wrong
                else None,
                call=call,
                detail="A step uses gradients that another step has used already" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = ("backward", ("gradients", {"model.weight": 0.5}), "step optimizer0:SGD")
        yield [mini.window(*rows, *rows), mini.window(*rows)]
        mini = Mini({"model.weight": {}})
        held = ("gradients", {"model.weight": 0.5}, {"optimizer": 1})
        inner = (held, "step optimizer1:Adam")
        yield [mini.window("backward", rows[1], ("step optimizer0:Sharded", {"inside": inner}))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = (("gradients", {"model.weight": 0.5}), "step optimizer0:SGD")
        yield [mini.window("backward", *rows, *rows)]
