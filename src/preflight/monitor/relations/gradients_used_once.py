"""Gradients are used once."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted


class GradientsUsedOnce(Relation):
    """The gradients of a parameter are used by one step.

    Two steps on the same gradients, without a backward pass between them, update twice: an optimizer that is stepped
    beside the loss scaler or the trainer, or two optimizers that hold the same parameter.
    A step within another one (a wrapper that shards or accumulates) is part of it. A step with a closure computes its
    gradients itself and is left out. A line search takes a step back and tries it with another rate: where the weights were
    before the first step are where the second one begins.
    """

    name = "gradients-used-once"
    midway = True
    needs = frozenset({"step", "state", "backward"})
    wakes = frozenset({"step", "backward", "autograd.grad"})
    repeats = 2
    looks = frozenset({"step", "backward", "autograd.grad", "gradient at before_step"})
    priority = 14
    cause = "optimizer.step() is called twice (beside scaler.step() or a trainer), or a parameter is in two optimizers that both step"
    advice = "step each optimizer once per backward pass, and give each parameter to one optimizer"

    def __init__(self) -> None:
        self._passes = 0
        self._compared = False  # whether two steps of the last window used one pass
        self._last = -1  # the pass of which the steps below used the gradients
        self._steps: list[tuple[State, str]] = []
        self._from: dict[int, float | None] = {}  # norms of the weights that a step of this pass began with
        self._used: dict[int, tuple[float, str]] = {}

    def quiet(self, window: Window) -> bool:
        """Whether each pass was used by one step, so that there were no gradients to be compared."""
        return not self._compared

    def slept(self, window: Window, times: int) -> None:
        """Know the gradients that the last step used."""
        for _ in self.see(window):
            pass

    def see(self, window: Window) -> Iterator[Example]:
        steps = steps_of(window)
        self._compared = False
        passes = sorted([call.q for name in ("backward", "autograd.grad") for call in window.named(name)])
        for step in steps:
            call = step.call
            if step.gradients is None or step.closure:
                continue
            if any(other.call.q < call.q < other.call.e for other in steps):
                continue  # the part of a wrapping optimizer's step that does the work
            again, others = self._again(step.gradients, call.object, self._passes + bisect(passes, call.q))
            back = self._put_back(step) if again else set()
            self._from.update(_weights(step))
            wrong = [window.run.name(ident) for ident in again if ident not in back]
            yield Example(
                (),
                not wrong,
                {"optimizer": step.kind},
                variables=tuple(wrong),
                expected="a backward pass between two steps on the same parameters",
                seen=f"{counted(len(wrong), 'gradient')} that a step of {', '.join(sorted(others))} used already"
                if wrong
                else None,
                call=call,
                detail="A step uses gradients that another step has used already" if wrong else "",
            )

        self._passes += len(passes)

    def _put_back(self, step: Step) -> set[int]:
        """The weights that are again what they were before another step of this pass, as far as is known."""
        before = dict(_weights(step))
        written = set((step.call.args or {}).get("written") or ())
        return {ident for ident in written if ident not in self._from or ident not in before} | {
            ident for ident, norm in before.items() if norm is not None and self._from.get(ident) == norm
        }

    def _again(self, gradients: State, name: str, passes: int) -> tuple[list[int], set[str]]:
        """The parameters whose gradients a step since the last pass has used, and the optimizers of these steps."""
        if self._last != passes:
            self._last = passes
            self._steps.clear()
            self._used.clear()
            self._from.clear()
        alone = not self._steps and len(set(gradients.ids)) == len(gradients.ids)
        self._steps.append((gradients, name))
        wrong: list[int] = []
        others: set[str] = set()
        if alone:
            return wrong, others
        self._compared = True
        for state, user in self._steps if not self._used else self._steps[-1:]:
            for ident, norm in zip(state.ids, state.norm, strict=True):
                if not norm or norm != norm:
                    continue
                before = self._used.get(ident)
                if state is gradients and before is not None and before[0] == norm:
                    wrong.append(ident)
                    others.add(before[1])
                self._used[ident] = norm, user
        return wrong, others

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = ("backward", ("gradients", {"model.weight": 0.5}), "step optimizer0:SGD")
        yield [mini.window(*rows, *rows), mini.window(*rows)]
        mini = Mini({"model.weight": {}})
        held = ("gradients", {"model.weight": 0.5}, {"optimizer": 1})
        inner = (held, "step optimizer1:Adam")
        yield [mini.window("backward", rows[1], ("step optimizer0:Sharded", {"inside": inner}))]
        mini = Mini({"model.weight": {}})
        tried = (("before", {"model.weight": 3.0}), *rows[1:])  # a step that was taken back
        yield [mini.window("backward", *tried, *tried)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = (("gradients", {"model.weight": 0.5}), "step optimizer0:SGD")
        yield [mini.window("backward", *rows, *rows)]
        mini = Mini({"model.weight": {}})
        first, second = (("before", {"model.weight": norm}) for norm in (3.0, 2.9))
        yield [mini.window("backward", first, *rows, second, *rows)]


def _weights(step: Step) -> Iterator[tuple[int, float | None]]:
    """The norms of the weights that a step begins with, where they were taken."""
    return zip(step.before.ids, step.before.norm, strict=True) if step.before is not None else iter(())
