"""What is frozen when the optimizer is made is not trained from the first step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted


class FrozenFromTheStart(Relation):
    """Parameters that need no gradient when an optimizer is made with them still need none at its first step.

    A trainer, or a wrapper, that switches gradients on for all that an optimizer holds undoes what was frozen on
    purpose: the pretrained part is trained along from the first step on.
    It is broken where everything that was frozen while the optimizer was made is trained at its first step, beside
    parameters that were not frozen. What is thawed later, in part, or in an optimizer that held nothing but frozen
    parameters, is meant so.
    """

    name = "frozen-from-the-start"
    needs = frozenset({"step"})
    wakes = frozenset({"step"})
    repeats = 3
    looks = frozenset({"step"})
    whole = False
    severity = "warning"
    priority = 14
    cause = "something sets requires_grad on all parameters of the optimizer, or of the model, before each pass"
    advice = "make the optimizer of what is to be trained only, or restore what was frozen after switching"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("step"):
            told = call.args or {}
            if "states" not in told and "thawed" not in told:
                continue
            thawed = set(told.get("thawed") or ())
            number = optimizer_number(call)
            others = [one for one in window.run.variables.values() if one.optimizer == number and one.id not in thawed]
            wrong = bool(thawed) and not told.get("still_frozen") and any(one.trainable for one in others)
            names = tuple(window.run.name(ident) for ident in sorted(thawed)) if wrong else ()
            yield Example(
                (),
                not wrong,
                {"optimizer": call.object.split(":")[-1]},
                variables=names,
                expected="frozen parameters, as they were when the optimizer was made",
                seen=counted(
                    len(names), "parameter that was frozen is trained", "parameters that were frozen are trained"
                )
                if wrong
                else None,
                call=call,
                detail="Parameters that were frozen are trained from the first step on" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [_first({})]
        yield [_first({"thawed": [1], "still_frozen": 3})]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [_first({"thawed": [1], "still_frozen": 0})]


def _first(told: dict[str, object]) -> Window:
    mini = Mini({"model.head": {}, "model.body": {}})
    return mini.window("backward", ("step optimizer0:SGD", {"args": {"closure": False, "states": 0, **told}}))
