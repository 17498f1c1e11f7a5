"""A step finds gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted

_ALONE, _AMONG_OTHERS = 2, 6
"""Steps in a row without any gradient that are one too many; several optimizers may take turns."""
_NO_PASS, _NO_PASS_LONG = 3, 32
"""Such steps where there was no backward pass either, with data and gradients that are cleared, and with one of both: a
memory may have to fill up where no loader gives the data, and a search puts back what it has tried where none are cleared."""
_HALF = "=float16"
"""In the context of a call: autocast to this type."""


class StepHasGradients(Relation):
    """A step after a backward pass finds a gradient in at least one parameter of its optimizer.

    Where it finds none, nothing is trained and nothing complains: the optimizer holds other tensors than the model
    (made before the model was copied, moved, wrapped or replaced), all it holds is frozen, or the gradients were
    cleared between the backward pass and the step.
    A single step without gradients is no violation: a batch may have been skipped by clearing them. Where several
    optimizers step, one may wait for its turn. Nor is a gradient of zero one where every loss of it was exactly zero, and
    earlier steps had gradients, or those of another optimizer have: losses with a margin rest there once it is kept, and
    a loss is multiplied by zero as long as its network waits.
    Where the process made no backward pass at all, three steps in a row are enough, if before each of them the model was
    passed in training mode, its gradients were cleared and a loader gave a batch, and nobody has ever moved or written to
    its parameters: the call of ``backward`` is missing. Where only one of both is so, the clearing or the batch, it takes
    32 steps: a search without gradients that puts back what made nothing better rests in many of its steps, too.
    """

    name = "step-has-gradients"
    needs = frozenset({"step", "backward", "state", "scalar", "forward"})
    wakes = frozenset({"step"})
    repeats = 2
    looks = frozenset(
        {"step", "backward", "zero_grad", "forward", "fetch", "gradient at before_step", "parameter at after_step"}
    )
    priority = 9
    cause = (
        "the optimizer holds other tensors than those that the loss depends on, the gradients were cleared before the "
        "step, backward() is not called, or the loss is so small in float16, or so flat, that they become zero"
    )
    advice = (
        "make the optimizer from model.parameters() after the model is final, call zero_grad() before backward(), and "
        "scale a loss in float16 with a GradScaler"
    )

    def __init__(self) -> None:
        self._empty: dict[int, int] = {}
        self._seen: set[int] = set()
        self._trained: set[int] = set()
        self._resting: set[int] = set()
        self._passed = False  # a backward pass was made
        self._idle: dict[int, int] = {}  # by optimizer: steps in a row for which none was
        self._left: dict[int, State] = {}  # by optimizer: its parameters as the last of them left them
        self._by_hand = False  # parameters were moved or written to though there was no backward pass

    def quiet(self, window: Window) -> bool:
        """Whether each step had gradients: of those without it counts how many there are in a row.

        Where gradients were not looked at, it matters whether parameters were, before the step; where they are zero, the
        loss matters.
        """
        # Before the first backward pass it matters whether parameters move.
        waits = bool(self._left) and not self._passed and not self._by_hand
        return not (waits or self._resting or any(self._empty.values())) and all(
            step.gradients is not None for step in steps_of(window)
        )

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            self._seen.add(step.optimizer)
            if step.named("backward"):
                self._passed = True
                self._idle.clear()
            elif not self._passed:
                yield from self._unpassed(step, window)
            if step.closure or not step.named("backward") or step.after is None or not step.after.ids:
                continue
            held = step.gradients
            if held is None and step.before is None:
                continue  # gradients were not looked at: parameters after a step are told for the next one, too
            some = held is not None and any(norm is not None and norm != 0 for norm in held.norm)
            if some:
                self._trained.add(step.optimizer)
            self._resting.discard(step.optimizer)
            if not some and self._trained and _rests(step, window):
                self._resting.add(step.optimizer)
            holds = some or step.optimizer in self._resting
            count = self._empty[step.optimizer] = 0 if holds else self._empty.get(step.optimizer, 0) + 1
            yield self._example(step, count, window)

    def _unpassed(self, step: Step, window: Window) -> Iterator[Example]:
        """Judge a step of a process that made no backward pass so far."""
        held, after = step.gradients, step.after
        if held is None or after is None or not after.ids:
            return  # gradients were not looked at
        before = step.before or self._left.get(step.optimizer)
        self._left[step.optimizer] = after
        rests = before is not None and (before.ids, before.norm, before.bits) == (after.ids, after.norm, after.bits)
        if (before is not None and _moved(before, after)) or (step.call.args or {}).get("written"):
            self._by_hand = True
        empty = all(norm is None for norm in held.norm)
        fed = bool(step.named("fetch"))
        if step.closure:
            return
        cleared = bool(step.clearing(window))
        trains = not self._by_hand and rests and empty and _passes(step, window) and (fed or cleared)
        count = self._idle[step.optimizer] = self._idle.get(step.optimizer, 0) + 1 if trains else 0
        if count < (_NO_PASS if fed and cleared else _NO_PASS_LONG):
            yield Example((), True, {"optimizer": step.kind, "cleared": False}, call=step.call)
            return
        names = tuple(window.run.name(ident) for ident in after.ids)
        yield Example(
            (),
            False,
            {"optimizer": step.kind, "cleared": False},
            variables=names,
            expected="a backward pass before a step",
            seen=f"{counted(len(names), 'parameter')}, none has a gradient, and there was no backward pass, {count} steps in a row",
            call=step.call,
            detail="The optimizer steps again and again, and no backward pass was ever made: nothing is trained",
        )

    def _example(self, step: Step, count: int, window: Window) -> Example:
        wrong = count >= (_ALONE if len(self._seen) == 1 else _AMONG_OTHERS)
        cleared = _cleared(step, window)
        context = {"optimizer": step.kind, "cleared": cleared}
        if not wrong:
            return Example((), True, context, call=step.call)
        held = step.after.ids if step.after is not None else []
        names = tuple(window.run.name(ident) for ident in held)
        words, detail = _told(step, cleared)
        return Example(
            (),
            False,
            context,
            variables=names,
            expected="a gradient in at least one parameter of the optimizer",
            seen=f"{counted(len(names), 'parameter')}, {words}, {count} steps in a row",
            call=step.call,
            detail=detail,
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        rows = (
            "forward model",
            "backward",
            ("gradients", {"model.weight": 0.5}),
            "step optimizer0:SGD",
            ("after", {"model.weight": 1.0}),
        )
        yield [mini.window(*rows) for _ in range(3)]
        mini = Mini({"model.weight": {}})
        skipped = (
            "forward model",
            "backward",
            "zero_grad optimizer0:SGD",
            ("gradients", {"model.weight": None}),
            "step optimizer0:SGD",
            ("after", {"model.weight": 1.0}),
        )
        yield [mini.window(*rows), mini.window(*skipped), mini.window(*rows)]
        mini = Mini({"model.weight": {}})
        unseen = [row for row in rows if row[0] != "gradients"]
        yield [mini.window(*rows), *(mini.window(*unseen) for _ in range(8))]
        mini = Mini({"model.weight": {}})
        yield [mini.window(*rows), *(mini.window(*_flat(0.0)) for _ in range(8))]
        mini = Mini({"model.weight": {}, "critic.weight": {"optimizer": 1}})
        waits = ("zero_grad optimizer1:SGD", "forward critic", "backward", ("loss", 0.0))
        held = (
            ("gradients", {"critic.weight": 0.0}, {"optimizer": 1}),
            "step optimizer1:SGD",
            ("after", {"critic.weight": 1.0}, {"optimizer": 1}),
        )
        yield [mini.window(*_flat(0.3, 0.5), *waits, *held) for _ in range(8)]
        cleared = "zero_grad optimizer0:SGD"
        yield _unpassed(4, "fetch loader0", cleared)  # a schedule that is tried out
        yield _unpassed(4, "fetch loader0", cleared, "forward model", weight=0.5)  # moved by hand
        yield _unpassed(8, "fetch loader0", cleared, "forward model", weight=0.5, moves=2)  # and put back later
        yield _unpassed(8, "fetch loader0", cleared, "forward model", written=True)  # and from the start on
        yield _unpassed(8, cleared, "forward model")  # a memory fills up
        yield _unpassed(8, "fetch loader0", "forward model")  # a search has found nothing better yet
        yield [*_unpassed(2, "fetch loader0", "forward model"), mini.window("fetch loader0", *rows)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        for cleared in ((), ("zero_grad optimizer0:SGD",)):
            mini = Mini({"model.weight": {}})
            rows = (
                "forward model",
                "backward",
                *cleared,
                ("gradients", {"model.weight": None}),
                "step optimizer0:SGD",
                ("after", {"model.weight": 1.0}),
            )
            yield [mini.window(*rows) for _ in range(3)]
        mini = Mini({"model.weight": {}})
        small = (
            ("forward model", {"context": "grad,autocast.cuda=float16"}),
            "backward",
            ("gradients", {"model.weight": 0.0}),
            "step optimizer0:SGD",
            ("after", {"model.weight": 1.0}),
        )
        yield [mini.window(*small) for _ in range(3)]
        mini = Mini({"model.weight": {}})
        yield [mini.window(*_flat(0.0)) for _ in range(3)]
        mini = Mini({"model.weight": {}})
        yield [*(mini.window(*_flat(0.3, 0.5)) for _ in range(3)), *(mini.window(*_flat(0.3)) for _ in range(3))]
        yield _unpassed(3, "fetch loader0", "zero_grad optimizer0:SGD", "forward model")
        yield _unpassed(32, "fetch loader0", "forward model")
        yield _unpassed(32, "zero_grad optimizer0:SGD", "forward model")


def _flat(loss: float, gradient: float = 0.0) -> tuple[Any, ...]:
    """The rows of an iteration with a loss and a gradient."""
    return (
        "forward model",
        "backward",
        ("loss", loss),
        ("gradients", {"model.weight": gradient}),
        "step optimizer0:SGD",
        ("after", {"model.weight": 1.0}),
    )


def _moved(before: State, after: State) -> bool:
    """Whether two looks at the same parameters, of which one may be less exact, show different ones."""
    alike = before.bits == after.bits or before.bits is None or after.bits is None
    return before.ids == after.ids and not (alike and before.norm == after.norm)


def _passes(step: Step, window: Window) -> bool:
    """Whether a model of which an optimizer holds parameters was passed in training mode since the step before."""
    roots = step.owned(window)
    return any(
        call.object.partition(".")[0] in roots
        and "nograd" not in call.context
        and bool((call.args or {}).get("training", True))
        for call in step.named("forward")
    )


def _unpassed(
    steps: int, *rows: Any, weight: float = 0.0, moves: int | None = None, written: bool = False
) -> list[Window]:
    """Iterations without a backward pass, in each of which, or the first few, the weight moves by so much."""
    last = steps if moves is None else moves
    mini = Mini({"model.weight": {}})
    return [
        mini.window(
            *rows,
            ("gradients", {"model.weight": None}),
            ("before", {"model.weight": 1.0 + weight * min(number, last)}),
            ("step optimizer0:SGD", {"args": {"written": [0]} if written else {}}),
            ("after", {"model.weight": 1.0 + weight * min(number + 1, last)}),
        )
        for number in range(steps)
    ]


def _rests(step: Step, window: Window) -> bool:
    """Whether there are gradients, and every loss of the iteration that they can be of was exactly zero."""
    if step.gradients is None or not any(norm == 0 for norm in step.gradients.norm):
        return False
    since = max((call.q for call in step.clearing(window)), default=step.since)
    losses = [one.value for one in window.numbers if one.name == "loss" and since < one.q < step.call.q]
    return bool(losses) and all(value == 0 for value in losses)


def _told(step: Step, cleared: bool) -> tuple[str, str]:
    """In what way a step finds no gradients, in short and as a sentence."""
    if cleared:
        return (
            "the gradients were cleared between the backward pass and the step",
            "Gradients are cleared between the backward pass and the step, which therefore changes nothing",
        )
    zero = step.gradients is not None and any(norm == 0 for norm in step.gradients.norm)
    if not zero:
        return (
            "none has a gradient",
            "No parameter of the optimizer has a gradient when it steps, although backward passes were made",
        )
    half = any(_HALF in call.context for call in step.between) and not step.named("scaler.scale")
    why = ": what is too small for float16 becomes zero, and no GradScaler scales the loss" if half else ""
    return (
        "each gradient is exactly zero" + (", in float16 without a GradScaler" if half else ""),
        f"All gradients of the optimizer are exactly zero when it steps{why}",
    )


def _cleared(step: Step, window: Window) -> bool:
    """Whether the gradients were cleared after the last backward pass."""
    last = max((call.q for call in step.named("backward")), default=-1)
    return any(call.q > last for call in step.clearing(window))
