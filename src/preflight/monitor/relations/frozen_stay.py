"""A step leaves frozen parameters as they are."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted


class FrozenStay(Relation):
    """A step does not change parameters that need no gradient.

    An optimizer looks at gradients, not at ``requires_grad``: a parameter that was frozen after a backward pass keeps its
    last gradient, and is updated with it (and with weight decay and momentum) at every further step.
    """

    name = "frozen-stay"
    midway = True
    needs = frozenset({"step", "state"})
    wakes = frozenset({"parameters after a step"})
    repeats = 1
    looks = frozenset({"step"})
    reads = frozenset({"exact parameter at after_step"})
    priority = 19
    cause = "the parameter was frozen while it had a gradient that nothing clears any more, and the optimizer goes on using it"
    advice = (
        "set the gradient of what is frozen to None, or make the optimizer from the parameters that are still trained"
    )

    def kept(self) -> object:
        """Nothing: of others it says nothing."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            if step.before is None or step.after is None or step.before.bits is None or step.after.bits is None:
                continue
            trained = set(step.gradients.ids) if step.gradients is not None else set()
            if trained.issuperset(step.after.ids):
                continue
            old = dict(zip(step.before.ids, step.before.bits, strict=True))
            frozen = [
                (ident, bits)
                for ident, bits in zip(step.after.ids, step.after.bits, strict=True)
                if ident not in trained and bits is not None and old.get(ident) is not None
            ]
            if not frozen:
                continue
            wrong = tuple(window.run.name(ident) for ident, bits in frozen if old[ident] != bits)
            yield Example(
                (),
                not wrong,
                {"optimizer": step.kind},
                variables=wrong,
                expected="frozen parameters as they were before the step",
                seen=f"{len(wrong)} of {counted(len(frozen), 'frozen parameter')} changed" if wrong else None,
                call=step.call,
                detail="A step changes parameters that are frozen" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _step(7)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _step(8)


def _step(after: int) -> list[Window]:
    mini = Mini({"model.head": {}, "model.body": {"trainable": False}})
    return [
        mini.window(
            ("gradients", {"model.head": 0.5}),
            ("before", {"model.head": (1.0, 3), "model.body": (2.0, 7)}),
            "step optimizer0:SGD",
            ("after", {"model.head": (1.1, 4), "model.body": (2.0, after)}),
        )
    ]
