"""Where Accelerate accumulates, losses go backward through it."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted


class AccumulatedLossesDivided(Relation):
    """The losses of an accumulation that was set up with Accelerate are divided by the number of its passes.

    ``accelerator.backward(loss)`` divides each loss; ``loss.backward()`` does not, so that the gradients of a step are as
    many times larger as there are passes.
    Judged at each step that several passes were accumulated for, where the program told Accelerate to: broken where none
    of their losses went through it and none ends in a division or a product, or a sum of such, by which the program may do
    so itself, or in a function that is compiled or the program's own, which may do so inside. Gradients that the program
    puts others in the place of may be divided there.
    """

    name = "accumulated-losses-divided"
    midway = True
    needs = frozenset({"step", "backward"})
    wakes = frozenset({"step"})
    repeats = 2
    looks = frozenset({"step", "backward"})
    severity = "warning"
    priority = 13
    cause = "loss.backward() was called within accelerator.accumulate()"
    advice = "call accelerator.backward(loss)"

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            stepped = step.call.args or {}
            if stepped.get("accumulating") is not False or stepped.get("rewritten"):
                continue
            passes = step.named("backward")
            told = [(call.args or {}).get("divided") for call in passes]
            if not told or None in told:
                continue
            wrong = len(passes) > 1 and not any(told)
            yield Example(
                (),
                not wrong,
                {},
                variables=("backward", step.call.object) if wrong else (),
                expected="losses that are divided by the number of passes",
                seen=counted(
                    len(passes), "pass whose loss is added up as it is", "passes whose losses are added up as they are"
                )
                if wrong
                else None,
                call=passes[-1],
                detail="Losses are accumulated without being divided by their number" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _accumulated(2, True)
        yield _accumulated(1, False)
        yield [*_accumulated(2, True), *_accumulated(2, False, rewritten=True)]  # the program divides the gradients

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _accumulated(2, False)


def _accumulated(passes: int, divided: bool, **more: bool) -> list[Window]:
    mini = Mini({"model.weight": {}})
    step = ("step optimizer0:SGD", {"args": {"closure": False, "accumulating": False, **more}})
    rows = [("backward", {"args": {"divided": divided}})] * passes
    return [mini.window(*rows, step, "zero_grad optimizer0:SGD") for _ in range(3)]
