"""A step does not take along the gradients of another optimizer's loss."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, State, Window
from preflight.vocabulary.counted import counted

_CLOSE = 1e-6
_ONE_FACTOR = 1e-4
_CHANGED = ("clip_grad_norm", "clip_grad_value", "scaler.unscale", "scaler.step")
"""Calls that change gradients."""


class LossesKeptApart(Relation):
    """Of two backward passes that a program keeps apart for one network, the other network's step does not take both.

    Two losses run through two networks, and the gradients of the second are cleared between the passes: what the first
    loss left there is not for it. Where the second pass goes on into the first network, whose step comes later, that step
    follows both losses, the one it should fight included. `gradients-of-one-loss` speaks of the same mistake with a step
    between the passes.
    Judged are the last two passes before a step, where the cleared gradients are not those of the step before. Gradients
    that were clipped, unscaled, exchanged between ranks or multiplied by one factor since cannot be compared.
    """

    name = "losses-kept-apart"
    needs = frozenset({"step", "backward", "zero_grad", "state", "accumulating", "collective", *_CHANGED})
    wakes = frozenset({"step", "gradient at accumulating", "gradient at before_clear"})
    repeats = 2
    looks = frozenset({"step", "backward", "gradient at before_step"})
    reads = frozenset({"gradient at accumulating", "gradient at before_clear"})
    priority = 12
    cause = "the second loss is computed on what the first network gave, without detaching it"
    advice = "detach what goes into the second network for its own loss, or clear the first network's gradients and step in turn"

    def __init__(self) -> None:
        self._states: list[State] = []
        self._used: dict[int, float | None] = {}  # the gradients of the last step

    def slept(self, window: Window, times: int) -> None:
        """Know the gradients that the last step used."""
        for _ in self.see(window):
            pass

    def see(self, window: Window) -> Iterator[Example]:
        self._states += [
            one for one in window.states if one.what == "gradient" and one.moment in ("accumulating", "before_clear")
        ]
        for step in steps_of(window):
            passes = step.named("backward")
            if not step.closure and len(passes) > 1 and step.gradients is not None and self._states:
                cleared = max((call.q for call in step.clearing(window)), default=-1)
                earlier, later = passes[-2:]
                if earlier.q > cleared and earlier.place != later.place:
                    names = self._taken(step, earlier, later, window)
                    if names is not None:
                        yield self._example(step, later, names, window)
            if step.gradients is None:
                self._used.clear()
            else:
                self._used.update(zip(step.gradients.ids, step.gradients.norm, strict=True))
        del self._states[:-16]

    def _taken(self, step: Step, earlier: Call, later: Call, window: Window) -> tuple[str, ...] | None:
        """Names of the step's parameters that the later pass reached too; None where nothing can be said."""
        if step.gradients is None or any(earlier.q < call.q < later.q for call in step.named("step")):
            return None
        if any(call.q > earlier.q and _changes(call) for call in step.between):
            return None
        between = [one for one in self._states if earlier.q < one.q < later.q]
        foreign = [one for one in between if one.moment == "before_clear" and self._new(one, step.gradients)]
        amidst = [one for one in between if one.moment == "accumulating"]
        if not foreign or not amidst:
            return None
        before = dict(zip(amidst[-1].ids, amidst[-1].norm, strict=True))
        pairs = [
            (ident, norm, before[ident] or 0.0)
            for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True)
            if norm is not None and before.get(ident) is not None
        ]
        others = [ident for ident, norm, old in pairs if abs(norm - old) > _CLOSE * norm]
        return None if others and _one_factor(pairs) else tuple(map(window.run.name, others))

    def _new(self, thrown: State, own: State) -> bool:
        """Whether gradients of others that are thrown away have come from a pass since the last step."""
        return not set(thrown.ids) & set(own.ids) and any(
            norm and ident in self._used and norm != self._used[ident]
            for ident, norm in zip(thrown.ids, thrown.norm, strict=True)
        )

    @staticmethod
    def _example(step: Step, own: Call, names: tuple[str, ...], window: Window) -> Example:
        return Example(
            (),
            not names,
            {"optimizer": step.kind},
            variables=names,
            expected="gradients of the own loss",
            seen=f"gradients of the backward pass at {own.place} too, in {counted(len(names), 'parameter')}"
            if names
            else None,
            call=own,
            detail="A step takes along the gradients of another optimizer's loss" if names else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _game(0.5)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _game(0.7)


def _changes(call: Call) -> bool:
    """Whether a call changes gradients that lie there."""
    return call.name in _CHANGED or call.name.startswith("collective.")


def _one_factor(pairs: list[tuple[int, float, float]]) -> bool:
    """Whether all norms, of several, have become larger or smaller by the same factor."""
    held = [(norm, old) for _, norm, old in pairs if norm or old]
    if len(held) < 2 or any(not old for _, old in held):
        return False
    factors = [norm / old for norm, old in held]
    return max(factors) - min(factors) <= _ONE_FACTOR * max(factors)


def _game(norm: float) -> list[Window]:
    mini = Mini({"coder.weight": {}, "judge.weight": {"optimizer": 1}})
    rows = (
        "zero_grad optimizer0:Adam",
        ("backward", {"place": "vae.py:5"}),
        ("thrown", {"judge.weight": 0.9}, {"optimizer": 1}),
        "zero_grad optimizer1:Adam",
        ("added", {"coder.weight": 0.5}),
        ("backward", {"place": "vae.py:9"}),
        ("gradients", {"coder.weight": norm}, {"optimizer": 0}),
        "step optimizer0:Adam",
        ("gradients", {"judge.weight": 0.4}, {"optimizer": 1}),
        "step optimizer1:Adam",
    )
    return [mini.window(*rows) for _ in range(3)]
