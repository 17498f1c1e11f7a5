"""A step uses the gradients of its own loss."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.steps import Step, steps_of
from preflight.monitor.window import Call, Window


class GradientsOfOneLoss(Relation):
    """Between the step of another optimizer and its own backward pass, an optimizer's gradients are cleared.

    In programs with several optimizers a backward pass leaves gradients in all networks that it runs through.
    Where those of the other loss are not cleared before the own backward pass, the own step follows both losses.
    """

    name = "gradients-of-one-loss"
    needs = frozenset({"step", "backward", "zero_grad"})
    wakes = frozenset({"step"})
    repeats = 2
    looks = frozenset({"step", "backward", "zero_grad"})
    priority = 12
    cause = "each optimizer's gradients are cleared after its own step only, so that the other loss's backward pass fills them again"
    advice = "call zero_grad() of an optimizer right before the backward pass of its own loss"

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            if step.closure or step.call.parent >= 0 and not step.between:
                continue
            others = [call for call in step.named("step") if call.object != step.call.object]
            passes = step.named("backward") if others else []
            if len(passes) < 2:
                continue
            foreign = self._foreign(step, passes, others, window)
            own = step.named("backward")[-1]
            owned = tuple(one.name for one in window.run.variables.values() if one.optimizer == step.optimizer)
            yield Example(
                (),
                foreign is None,
                {"optimizer": step.kind},
                variables=owned if foreign is not None else (),
                expected="no gradients of another loss when the own backward pass begins",
                seen=f"gradients of the backward pass at {foreign.place}" if foreign is not None else None,
                call=own,
                detail="A step uses gradients that the backward pass of another optimizer's loss left behind"
                if foreign is not None
                else "",
            )

    @staticmethod
    def _foreign(step: Step, passes: list[Call], others: list[Call], window: Window) -> Call | None:
        """The backward pass of another optimizer's loss whose gradients are still there, or None."""
        cleared = max((call.q for call in step.clearing(window)), default=-1)
        since = [call for call in passes if call.q > cleared]
        for earlier, later in pairwise(since):
            left = ((later.args or {}).get("of") or {}).get(str(step.optimizer), 0)
            between = any(earlier.q < call.q < later.q for call in others)
            if left and between and earlier.place != later.place:
                return earlier
        return None

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _game(True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _game(False)


def _game(right: bool) -> list[Window]:
    mini = Mini({"critic.weight": {}, "maker.weight": {"optimizer": 1}})
    clear = ("zero_grad optimizer0:Adam",)
    rows = (
        *(clear if right else ()),
        ("backward", {"place": "gan.py:5", "args": {"of": {} if right else {"0": 1}}}),
        "step optimizer0:Adam",
        *(() if right else clear),
        "zero_grad optimizer1:Adam",
        ("backward", {"place": "gan.py:9"}),
        "step optimizer1:Adam",
    )
    return [mini.window(*rows) for _ in range(3)]
