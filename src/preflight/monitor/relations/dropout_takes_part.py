"""Dropout that a model was given takes part in its training."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import ORDER, Call, Window
from preflight.vocabulary.counted import counted

_STEPS = 3
"""Steps in evaluation mode, from the first on, that are one too many."""


class DropoutTakesPart(Relation):
    """A model with dropout is not trained in evaluation mode from its first step on.

    A function that loads a model and puts it into evaluation mode hands over a model that trains as it is, without its
    dropout and with fixed running statistics, unless somebody calls ``train()``.
    Judged is a model whose parameters are all trained, from its first steps: it is broken where the program put the
    whole of it into evaluation mode before and none of it into training mode since, and no dropout of it was active.
    Where it also runs without gradients between the steps, as policies do whose log-probabilities are compared, or a part
    of it is frozen, evaluation mode is meant, and nothing is said; nor of a model that was in training mode before.
    """

    name = "dropout-takes-part"
    needs = frozenset({"mode", "forward", "step"})
    wakes = frozenset({"step", "mode", "forward"})
    repeats = 4
    looks = frozenset({"mode", "forward", "step"})
    whole = False
    severity = "warning"
    priority = 13
    cause = "the model was put into evaluation mode where it was made or loaded, and nothing called model.train()"
    advice = "call model.train() before the training"

    def __init__(self) -> None:
        self._off: dict[str, Call] = {}  # models that the program put into evaluation mode
        self._meant: set[str] = set()
        self._count: dict[str, int] = {}
        self._seen = -1

    def see(self, window: Window) -> Iterator[Example]:
        for step in steps_of(window):
            self._follow(step.named("mode"), step.named("forward"))
            yield from self._judge(step, window)
        self._follow(window.named("mode"), window.named("forward"))

    def _follow(self, modes: list[Call], passes: list[Call]) -> None:
        for call in sorted([*modes, *passes], key=ORDER) if modes else passes:
            if call.q <= self._seen:
                continue
            self._seen = call.q
            root = call.object.split(".")[0]
            told = call.args or {}
            if call.name == "mode":
                if told.get("training"):
                    self._meant.add(root)
                elif told.get("user", True) and call.object == root:
                    self._off.setdefault(root, call)
            elif told.get("dropout") or told.get("training") or not (call.context or "").startswith("grad"):
                self._meant.add(root)

    def _judge(self, step: Step, window: Window) -> Iterator[Example]:
        for call in {one.object: one for one in step.named("forward")}.values():
            told, name = call.args or {}, call.object
            own = [one for one in window.run.variables.values() if one.root == name and one.kind == "parameter"]
            if not told.get("dropouts") or not own:
                continue
            whole = all(one.trainable and one.optimizer == step.optimizer for one in own)
            off = self._off.get(name) if whole and name not in self._meant else None
            count = self._count[name] = self._count.get(name, 0) + 1 if off is not None else 0
            wrong = count >= _STEPS
            place = off.place.rsplit("/", 1)[-1] if off is not None and off.place else ""
            yield Example(
                (),
                not wrong,
                {"model": name},
                variables=(name,) if wrong else (),
                expected="training mode in the passes of the first steps",
                seen=counted(
                    int(told["dropouts"]),
                    "part with dropout, which does not drop",
                    "parts with dropout, none of which drops",
                )
                if wrong
                else None,
                call=call,
                detail=f"{name} has been trained in evaluation mode since its first step{f', set at {place}' * bool(place)}"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _trained(("mode model", {"args": {"training": True, "user": True}}), _pass(1))
        played = ("forward model", {"args": {"training": False, "dropouts": 1, "dropout": 0}, "context": "nograd"})
        yield _trained(_OFF, played, _pass(0))
        yield _trained(_OFF, _pass(0), more={"trainable": False})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trained(_OFF, _pass(0))


_OFF = ("mode model", {"args": {"training": False, "user": True}, "place": "train.py:4"})


def _pass(active: int) -> tuple[str, dict[str, object]]:
    return "forward model", {"args": {"training": bool(active), "dropouts": 1, "dropout": active}}


def _trained(first: object, *rest: object, more: dict[str, object] | None = None) -> list[Window]:
    mini = Mini({"model.weight": {}, "model.bias": more or {}})
    step = ("backward", "step optimizer0:SGD")
    return [mini.window(*([first] if number == 0 else []), *rest, *step) for number in range(4)]
