"""The search for an input leaves no gradients behind."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_SEARCHING = 2
_IN_A_ROW = 2
_MOST_PASSES = 64


class SearchedInputsLeaveNothing(Relation):
    """Gradients of backward passes that search for an input are cleared before the one that trains.

    Adversarial training looks for the worst input by the gradient of the loss with respect to it. Each
    ``loss.backward()`` of that search also adds to the gradients of the weights; where they are not cleared afterwards, a step
    follows the sum of them all, mostly of inputs on which nobody meant to train.
    Judged are steps for which two backward passes or more went to a model's own input, and the last one, of a detached
    input, found their gradients: in two steps in a row. A single such pass may be the clean half of a sum, and where every
    pass goes to its input, all of them are meant. Steps around ``torch.autograd.grad`` are left alone.
    """

    name = "searched-inputs-leave-nothing"
    needs = frozenset({"step", "backward", "zero_grad", "forward", "tensor"})
    wakes = frozenset({"step"})
    repeats = 3
    looks = frozenset({"step", "backward", "zero_grad", "forward", "autograd.grad", "tensors"})
    priority = 12
    cause = (
        "zero_grad() is called before the search for the input, and not between it and the backward pass that trains"
    )
    advice = "call optimizer.zero_grad() after the search, or search with torch.autograd.grad(loss, inputs)"

    def __init__(self) -> None:
        self._attached: dict[int, bool] = {}  # by forward pass that records gradients: whether an input takes one
        self._count: dict[int, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        if len(window.named("backward")) <= _SEARCHING:
            return
        self._inputs(window)
        for step in steps_of(window):
            if step.closure or len(step.named("backward")) <= _SEARCHING:
                continue
            searched = self._searched(step, window)
            count = self._count[step.optimizer] = self._count.get(step.optimizer, 0) + 1 if searched else 0
            wrong = count >= _IN_A_ROW
            owned = tuple(one.name for one in window.run.variables.values() if one.optimizer == step.optimizer)
            yield Example(
                (),
                not wrong,
                {"optimizer": step.kind},
                variables=owned if wrong else (),
                expected="no gradients of the search when the backward pass that trains begins",
                seen=f"gradients of {counted(searched, 'backward pass', 'backward passes')} that went to the input"
                if wrong
                else None,
                call=step.named("backward")[-1],
                detail="A step follows gradients that the search for an input left behind" if wrong else "",
            )

    def slept(self, window: Window, times: int) -> None:
        """Know the inputs of passes that the next step may follow."""
        if len(window.named("backward")) > _SEARCHING:
            self._inputs(window)

    def _inputs(self, window: Window) -> None:
        """Remember of the last forward passes whether their input takes a gradient."""
        passes = {call.q for call in window.named("forward") if call.context.startswith("grad")}
        for seen in window.tensors if passes else ():
            if seen.call in passes and seen.position.startswith("in"):
                self._attached[seen.call] = self._attached.get(seen.call, False) or seen.requires_grad
        for number in list(self._attached)[: max(0, len(self._attached) - _MOST_PASSES)]:
            del self._attached[number]

    def _searched(self, step: Step, window: Window) -> int:
        """How many passes went to the input before one of a detached input, whose gradients nobody cleared; 0 otherwise."""
        last = max((call.q for call in step.clearing(window)), default=step.since)
        begun, roots, found = last, step.owned(window), 0
        if any(call.q > last for call in step.named("autograd.grad")):
            return 0
        passes = [call for call in step.named("backward") if call.q > last]
        for call in passes:
            ran = [one for one in step.named("forward") if begun < one.q < call.q and one.q in self._attached]
            begun = call.q
            if not ran or any(one.object.split(".")[0] not in roots for one in ran):
                return 0  # what the input was made of may be a model of its own
            if self._attached[ran[0].q]:
                found += 1
            elif call is passes[-1] and ((call.args or {}).get("of") or {}).get(str(step.optimizer)):
                return found if found >= _SEARCHING else 0
            else:
                return 0
        return 0

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _attacked(2, cleared=True)
        yield _attacked(3, trained=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _attacked(2)


def _attacked(times: int, cleared: bool = False, trained: bool = False) -> list[Window]:
    mini = Mini({"model.weight": {}})
    windows = []
    for _ in range(3):
        rows: list[object] = ["zero_grad optimizer0:SGD"]
        for at in range(times + 1):
            search = at < times or trained
            if cleared and at == times:
                rows.append("zero_grad optimizer0:SGD")
            rows.append(("forward model", {"args": {"input": search}}))
            rows.append(("backward", {"args": {"of": {"0": 1} if at else {}}}))
        window = mini.window(*rows, "step optimizer0:SGD")
        for call in window.named("forward"):
            grad = bool((call.args or {})["input"])
            row = ("tensor", {"object": "model", "position": "in0", "requires_grad": grad, "call": call.q})
            window.tensors += [one._replace(i=window.iteration) for one in mini.window(row).tensors]
        windows.append(window)
    return windows
