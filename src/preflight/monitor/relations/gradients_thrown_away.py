"""Gradients are not thrown away."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Batch, Call, Window
from preflight.vocabulary.counted import counted

_ROUNDS = 2


class GradientsThrownAway(Relation):
    """The backward passes of a training loop on batches of its own end up in a step.

    With accumulation, clearing the gradients at every micro-batch instead of once per step leaves only the last one.
    Meant are passes from the same place of the program, in the same mode, each on another batch: an attack on the inputs,
    a sharpness-aware first pass or a penalty make passes at other places, or on the same batch. Where the program puts
    other gradients in the place of those that the last pass left, it has made them of what it cleared.
    It must happen in two steps in a row, so that a batch which is dropped for its gradients is no violation. Where the
    clearing is put off until the pass that is followed by the step, as wrappers for accumulation do, all earlier ones are
    cleared at once and a single pass is left: a remainder that is cleared at the end of an epoch leaves several.
    """

    name = "gradients-thrown-away"
    needs = frozenset({"step", "backward", "zero_grad", "forward", "batch"})
    wakes = frozenset({"step", "input"})
    repeats = 2
    looks = frozenset({"step", "backward"})
    priority = 11
    cause = "zero_grad() is called at every micro-batch instead of once for every step"
    advice = "call zero_grad() right after step(), or only where a new accumulation begins"

    def __init__(self) -> None:
        self._rounds: dict[int, int] = {}
        self._batches: list[Batch] = []

    def quiet(self, window: Window) -> bool:
        """Whether each step came after one pass, so that it does not matter what went into it."""
        return all(len(step.named("backward")) < 2 for step in steps_of(window))

    def slept(self, window: Window, times: int) -> None:
        """Know the last batches."""
        for _ in self.see(window):
            pass

    def see(self, window: Window) -> Iterator[Example]:
        for batch in window.batches:
            if batch.loader.startswith("forward:") and batch.bits:
                self._batches.append(batch)
        for step in steps_of(window):
            if step.closure:
                continue
            passes = step.named("backward")
            if not passes:
                continue
            combined = (step.call.args or {}).get("rewritten")
            thrown = self._thrown(step, passes, window) if len(passes) > 1 and not combined else []
            if not _one_by_one(thrown, passes) and not _all_but_the_last(thrown, passes):
                thrown = []  # a remainder is cleared all at once, and several passes follow
            rounds = self._rounds.get(step.optimizer, 0) + 1 if thrown else 0
            self._rounds[step.optimizer] = rounds
            if rounds < _ROUNDS:
                yield Example((), True, {"optimizer": step.kind})
                continue
            yield Example(
                (),
                False,
                {"optimizer": step.kind},
                variables=("zero_grad",),
                expected="a step that uses the gradients of all backward passes before it",
                seen=f"gradients of {len(thrown)} of {counted(len(passes), 'backward pass', 'backward passes')} were cleared",
                call=thrown[-1],
                detail="Gradients of micro-batches are cleared before the step could use them",
            )
        del self._batches[:-256]

    def _thrown(self, step: Step, passes: list[Call], window: Window) -> list[Call]:
        """Clearings that threw away the gradients of a pass like the last one."""
        cleared = step.clearing(window)
        last = passes[-1]
        own = self._batch_of(last, step)
        found = []
        for earlier in passes[:-1]:
            if earlier.place != last.place or self._batch_of(earlier, step) in (None, own):
                continue
            clearing = [call for call in cleared if earlier.q < call.q < last.q]
            if clearing and not any(
                call.name in ("step", "scaler.step") and earlier.q < call.q < clearing[0].q for call in step.between
            ):
                found.append(clearing[0])
        return found

    def _batch_of(self, backward: Call, step: Step) -> tuple[str, list[int | None]] | None:
        """What went into the last forward pass before a backward pass."""
        forwards = [call.q for call in step.named("forward") if call.q < backward.q]
        if not forwards:
            return None
        inputs = (one for one in reversed(self._batches) if forwards[-1] < one.q < backward.q)
        return next(((one.loader, one.bits) for one in inputs), None)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = [row for number in range(2) for row in _micro(number)]
        yield [mini.window("zero_grad optimizer0:SGD", *rows, "step optimizer0:SGD") for _ in range(3)]
        mini = Mini({"model.weight": {}})
        twice = [row for _ in range(2) for row in ("zero_grad optimizer0:SGD", *_micro(0))]
        yield [mini.window(*twice, "step optimizer0:SGD") for _ in range(3)]
        mini = Mini({"model.weight": {}})
        parts = [row for number in range(2) for row in ("zero_grad optimizer0:SGD", *_micro(number))]
        combined = ("step optimizer0:SGD", {"args": {"rewritten": True}})
        yield [mini.window(*parts, combined) for _ in range(3)]
        mini = Mini({"model.weight": {}})
        left = [*_micro(0), "zero_grad optimizer0:SGD", *_micro(1), *_micro(2), *_micro(3)]
        yield [mini.window(*left, "step optimizer0:SGD") for _ in range(3)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = [row for number in range(2) for row in ("zero_grad optimizer0:SGD", *_micro(number))]
        yield [mini.window(*rows, "step optimizer0:SGD") for _ in range(3)]
        mini = Mini({"model.weight": {}})
        rows = [*_micro(0), *_micro(1), *_micro(2), "zero_grad optimizer0:SGD", *_micro(3)]
        yield [mini.window(*rows, "step optimizer0:SGD") for _ in range(3)]


def _one_by_one(thrown: list[Call], passes: list[Call]) -> bool:
    """Whether each pass but the last one has a clearing of its own."""
    return len({call.q for call in thrown}) == len(passes) - 1


def _all_but_the_last(thrown: list[Call], passes: list[Call]) -> bool:
    """Whether what all passes but the last one made is cleared right before that one."""
    return len(thrown) == len(passes) - 1 and all(call.q > passes[-2].q for call in thrown)


def _micro(number: int) -> tuple[object, ...]:
    batch = ("batch", {"loader": "forward:model", "bits": [number], "fetch": number})
    return (("forward model", {"inside": (batch,)}), "backward")
