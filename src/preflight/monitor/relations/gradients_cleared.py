"""Gradients are cleared between two steps."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_KEPT = 0.999
"""Gradients that became smaller than by this factor since the step were multiplied by the program."""


class GradientsCleared(Relation):
    """Between two steps of an optimizer its gradients are cleared.

    ``backward`` adds to the gradients that are there. Where nothing clears them, every step follows the sum of all
    gradients since the beginning; the loss still falls, and often looks like too high a learning rate.
    It counts as cleared when ``zero_grad`` of the optimizer or of a module with its parameters was called, or when the
    gradients were found to be zero or absent as a backward pass began.
    Gradients that the program has multiplied by a factor below one since the step are kept on purpose: that is momentum.
    """

    name = "gradients-cleared"
    midway = True
    needs = frozenset({"zero_grad", "step", "backward", "state"})
    wakes = frozenset({"step"})
    repeats = 2  # the first step of an optimizer is not judged, the next one looks back at the window before
    looks = frozenset({"step", "backward", "zero_grad", "forward"})
    reads = frozenset({"gradient at before_backward"})
    priority = 10
    cause = (
        "optimizer.zero_grad() is missing, is called on another optimizer, or its result is not what backward adds to"
    )
    advice = (
        "call optimizer.zero_grad() once for every optimizer.step(), before the first backward pass of the next step"
    )

    def __init__(self) -> None:
        self._used: dict[int, dict[int, float | None]] = {}  # by optimizer: the gradients of its last step

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            used = self._used.pop(step.optimizer, {})
            if step.gradients is not None:
                self._used[step.optimizer] = dict(zip(step.gradients.ids, step.gradients.norm, strict=True))
            if step.done == 0 or not step.named("backward"):
                continue
            left = self._left(step, used, window)
            if left is None:
                continue
            context = {"closure": step.closure, "optimizer": step.kind}
            if not left:
                yield Example((), True, context)
                continue
            yield Example(
                (),
                False,
                context,
                variables=left,
                expected="no gradient, or zero, when the first backward pass after a step begins",
                seen=counted(len(left), "gradient of the step before", "gradients of the step before"),
                call=step.call,
                detail="Gradients of the step before were still there when the backward pass added its own",
            )

    @staticmethod
    def _left(step: Step, used: dict[int, float | None], window: Window) -> tuple[str, ...] | None:
        """Names of the parameters whose gradients were left; None when it cannot be said."""
        variables = window.run.variables
        roots = step.owned(window)
        if step.clearing(window):
            return ()
        passes = [call.args or {} for call in step.named("backward")]
        if any("gradients" in seen and str(step.optimizer) not in (seen.get("of") or {}) for seen in passes):
            return ()  # somebody cleared them by hand
        called = {call.object.split(".")[0] for call in step.named("forward")}
        if called and not called & roots:
            return None  # gradients are put there, not added up
        backward = step.named("backward")[0]
        found = [one for one in step.cleared if one.q < backward.e]
        if not found:
            return None
        state = found[0]
        left = {
            ident: norm
            for ident, norm in zip(state.ids, state.norm, strict=True)
            if norm and ident in variables and variables[ident].optimizer == step.optimizer
        }
        if all(norm < _KEPT * (used.get(ident) or 0.0) for ident, norm in left.items()):
            return ()  # they decay
        return tuple(variables[ident].name for ident in left)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = ("zero_grad optimizer0:SGD", "forward model", "backward", "step optimizer0:SGD")
        yield [mini.window(*rows), mini.window(*rows)]
        mini = Mini({"model.weight": {}})
        by_hand = ("forward model", ("left", {"model.weight": 0.0}), "backward", "step optimizer0:SGD")
        yield [mini.window(*by_hand), mini.window(*by_hand)]
        mini = Mini({"model.weight": {}})
        decayed = ("forward model", ("left", {"model.weight": 0.45}), "backward", ("gradients", {"model.weight": 0.5}))
        yield [mini.window(*decayed, "step optimizer0:SGD"), mini.window(*decayed, "step optimizer0:SGD")]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = ("forward model", ("left", {"model.weight": 0.5}), "backward", "step optimizer0:SGD")
        yield [mini.window(*rows), mini.window(*rows)]
