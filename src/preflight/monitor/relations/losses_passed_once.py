"""A loss is passed back once before a step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Window


class LossesPassedOnce(Relation):
    """A loss that was passed back is not passed back once more as a part of a sum, while its gradients lie there.

    ``first.backward(retain_graph=True)`` and then ``(first + second).backward()``: the gradients of the first one are added
    to themselves, and it counts twice as much as it should. So they are where the loss itself is passed back once more. A sum over micro-batches that is passed back after each of them
    counts the first of them most.
    Judged are passes that begin at what an earlier pass began at, or at a sum which holds it, by its graph, where no step and no
    clearing of gradients lies between them and gradients are there as the later one begins. Passes for some leaves alone, and
    such between which parameters were frozen or freed, or gradients written to by hand, are not meant.
    """

    name = "losses-passed-once"
    midway = True
    needs = frozenset({"backward", "zero_grad"})
    wakes = frozenset({"backward", "zero_grad"})
    repeats = 2
    looks = frozenset({"backward", "zero_grad"})
    whole = False
    severity = "warning"
    priority = 10
    cause = "backward() is called on a loss and once more on it, or on a sum that holds it"
    advice = "call backward() once, on the sum, or on each loss by itself"

    def __init__(self) -> None:
        self._passes = 0  # since gradients were last cleared

    def see(self, window: Window) -> Iterator[Example]:
        for call in sorted([*window.named("backward"), *window.named("zero_grad")], key=ORDER):
            if call.name == "zero_grad":
                self._passes = 0
                continue
            told = call.args or {}
            ago = int(told.get("again") or 0)
            wrong = 0 < ago <= self._passes and bool(told.get("of"))
            self._passes += 1
            yield Example(
                (),
                not wrong,
                {},
                variables=("backward", "retain_graph") if wrong else (),
                expected="one backward pass for each loss between two steps",
                seen="a loss, or a sum that holds one, whose gradients are there already" if wrong else None,
                call=call,
                detail="A loss is passed back, and once more by itself or in a sum, and counts twice" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        twice = ("backward", {"args": {"of": {"0": 1}}})
        yield [mini.window("zero_grad optimizer0:SGD", "backward", twice, "step optimizer0:SGD") for _ in range(3)]
        mini = Mini({"model.weight": {}})  # the gradients of the first were read and cleared
        again = ("backward", {"args": {"of": {"0": 1}, "again": 1}})
        rows = ("zero_grad optimizer0:SGD", "backward", "zero_grad optimizer0:SGD", again, "step optimizer0:SGD")
        yield [mini.window(*rows) for _ in range(3)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        again = ("backward", {"args": {"of": {"0": 1}, "again": 1}})
        yield [mini.window("zero_grad optimizer0:SGD", "backward", again, "step optimizer0:SGD") for _ in range(3)]
