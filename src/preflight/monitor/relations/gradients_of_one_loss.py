"""A step uses the gradients of its own loss."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window

_MOST_PASSES = 64


class GradientsOfOneLoss(Relation):
    """Between the step of another optimizer and its own backward pass, an optimizer's gradients are cleared.

    In programs with several optimizers a backward pass leaves gradients in all networks that it runs through.
    Where those of the other loss are not cleared before the own backward pass, the own step follows both losses.
    The same happens where all optimizers step after all backward passes: a discriminator that a generator's loss runs
    through, and whose own loss is of detached inputs, is to be cleared between the two, or frozen during the first.
    Where both losses are of one and the same pass of the network, and the optimizer of another part steps on each of them, it
    is a trunk whose heads have optimizers of their own, and is meant to follow both; and so is a step on gradients that the
    program put there. A decoder that an encoder feeds, and whose pass is kept for a second loss of the decoder alone, follows
    both as well.
    """

    name = "gradients-of-one-loss"
    midway = True
    needs = frozenset({"step", "backward", "zero_grad", "forward", "tensor"})
    wakes = frozenset({"step"})
    repeats = 2
    looks = frozenset({"step", "backward", "zero_grad"})
    priority = 12
    cause = "each optimizer's gradients are cleared after its own step only, so that the other loss's backward pass fills them again"
    advice = "call zero_grad() of an optimizer right before the backward pass of its own loss"

    def __init__(self) -> None:
        self._attached: dict[int, bool] = {}  # by forward pass that records gradients: whether an input takes one
        self._fed: set[str] = set()  # networks through whose inputs gradients went on

    def see(self, window: Window) -> Iterator[Example]:
        self._inputs(window)
        for step in steps_of(window):
            given = step.call.args or {}
            if step.closure or given.get("rewritten") or (step.call.parent >= 0 and not step.between):
                continue
            others = [call for call in step.named("step") if call.object != step.call.object]
            passes = step.named("backward") if others else []
            if len(passes) < 2:
                continue
            foreign = self._foreign(step, passes, others, window) or self._mixed(step, passes, window)
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

    def _inputs(self, window: Window) -> None:
        """Remember of the last forward passes whether gradients go on through their inputs."""
        passes = {call.q: call.object for call in window.named("forward") if call.context.startswith("grad")}
        for seen in window.tensors if passes else ():
            if seen.call in passes and seen.position.startswith("in"):
                self._attached[seen.call] = self._attached.get(seen.call, False) or seen.requires_grad
                if seen.requires_grad:
                    self._fed.add(passes[seen.call])
        for number in list(self._attached)[: max(0, len(self._attached) - _MOST_PASSES)]:
            del self._attached[number]

    def _mixed(self, step: Step, passes: list[Call], window: Window) -> Call | None:
        """A backward pass through inputs of its networks that left gradients when the first one of detached inputs began."""
        last = max((call.q for call in step.clearing(window)), default=-1)
        last, own, foreign = max(last, step.since), step.owned(window), None
        for call in passes:
            if call.q < last:
                continue
            ran = [one for one in step.named("forward") if last < one.q < call.q and one.object.split(".")[0] in own]
            inputs = [self._attached[one.q] for one in ran if one.q in self._attached]
            last = call.q
            if any(inputs):
                foreign = foreign or call
            elif inputs:
                left = (call.args or {}).get("of") or {}
                others = any(index != str(step.optimizer) for index in left)
                return foreign if others and left.get(str(step.optimizer)) else None
        return None

    def _foreign(self, step: Step, passes: list[Call], others: list[Call], window: Window) -> Call | None:
        """The backward pass of another optimizer's loss whose gradients are still there, or None."""
        cleared = max((call.q for call in step.clearing(window)), default=-1)
        since = [call for call in passes if call.q > cleared]
        own = step.owned(window)
        ran = {call.q: call.object for call in step.named("forward") if call.object.split(".")[0] in own}
        for earlier, later in pairwise(since):
            left = ((later.args or {}).get("of") or {}).get(str(step.optimizer), 0)
            between = any(earlier.q < call.q < later.q for call in others)
            shared = not any(earlier.q < q < later.q for q in ran) and (
                any(call.q > later.q for call in others)
                or bool(
                    (earlier.args or {}).get("retain_graph")
                    and any(cleared < q < earlier.q and name in self._fed for q, name in ran.items())
                )
            )
            if left and between and not shared and earlier.place != later.place:
                return earlier
        return None

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _game(True)
        yield _rounds(frozen=True)
        yield _game(False, head=True)  # one pass of a trunk, two losses
        yield _fed(True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _game(False)
        yield _rounds(frozen=False)
        yield _fed(False)


def _fed(fed: bool) -> list[Window]:
    """Two networks with a loss, after which one steps, and then a loss of the other one, which the first feeds or not."""
    mini = Mini({"maker.weight": {}, "reader.weight": {"optimizer": 1}})
    found = []
    for _ in range(3):
        window = mini.window(
            "zero_grad optimizer1:Adam",
            "zero_grad optimizer0:Adam",
            "forward reader",
            "forward maker",
            ("backward", {"place": "gan.py:5", "args": {"retain_graph": True}}),
            "step optimizer1:Adam",
            ("backward", {"place": "gan.py:9", "args": {"of": {"0": 1, "1": 1}}}),
            "step optimizer0:Adam",
        )
        call = window.named("forward")[1]
        row = ("tensor", {"object": "maker", "position": "in0", "requires_grad": fed, "call": call.q})
        window.tensors += [one._replace(i=window.iteration) for one in mini.window(row).tensors]
        found.append(window)
    return found


def _game(right: bool, head: bool = False) -> list[Window]:
    mini = Mini({"critic.weight": {}, "maker.weight": {"optimizer": 1}})
    clear = ("zero_grad optimizer0:Adam",)
    rows = (
        *(clear if right else ()),
        *(() if head else ("forward critic",)),
        ("backward", {"place": "gan.py:5", "args": {"of": {} if right else {"0": 1}}}),
        *(("step optimizer2:Adam",) if head else ()),
        "step optimizer0:Adam",
        *(() if right else clear),
        "zero_grad optimizer1:Adam",
        ("backward", {"place": "gan.py:9"}),
        "step optimizer1:Adam",
    )
    return [mini.window(*rows) for _ in range(3)]


def _rounds(frozen: bool) -> list[Window]:
    """A generator's and a discriminator's backward pass, and then their steps."""
    mini = Mini({"critic.weight": {}, "maker.weight": {"optimizer": 1}})
    found = []
    for _ in range(3):
        window = mini.window(
            "forward critic",
            ("backward", {"place": "gan.py:5", "args": {}}),
            "forward critic",
            ("backward", {"place": "gan.py:9", "args": {"of": {"1": 1} if frozen else {"0": 1, "1": 1}}}),
            "step optimizer1:Adam",
            "zero_grad optimizer1:Adam",
            "step optimizer0:Adam",
            "zero_grad optimizer0:Adam",
        )
        for call, grad in zip(window.named("forward"), (True, False), strict=True):
            row = ("tensor", {"object": "critic", "position": "in0", "requires_grad": grad, "call": call.q})
            window.tensors += [one._replace(i=window.iteration) for one in mini.window(row).tensors]
        found.append(window)
    return found
