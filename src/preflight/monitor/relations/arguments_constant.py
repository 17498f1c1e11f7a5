"""Calls of the training are made with the same arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.relations.step_contains import spoken
from preflight.monitor.scope import precision_of
from preflight.monitor.window import Window

_LIMITS = {"clip_grad_norm": "max_norm", "clip_grad_value": "clip_value"}


class ArgumentsConstant(Relation):
    """A call that occurs in every step is made in the same way each time.

    In which mode a model is called when it is trained (whether parts of it drop, whether statistics are followed), the
    dtype of the loss, that the limit of clipping stays what it was at first, and that clipping is given all parameters of
    its optimizer. What says how large something is (of widths, of limits) is not learnt: it may differ from run to run; and
    a model without a part that drops, as with a rate of zero, is held to none with one, nor the other way round.
    """

    name = "arguments-constant"
    fields = ("call", "object", "argument")
    needs = frozenset({"forward", "backward", *_LIMITS})
    wakes = needs
    severity = "warning"
    priority = 44
    asked = ("precision_of_the_weights", "dropout")
    learns = True
    cause = "an argument, a mode or a precision is set in another way than in the runs this was learnt from"
    advice = "look at the call, and at what its arguments are computed from"

    def __init__(self) -> None:
        self._first: dict[str, Any] = {}

    def see(self, window: Window) -> Iterator[Example]:
        seen: set[Any] = set()
        for example in (*self._forwards(window), *self._losses(window), *self._limits(window)):
            key = (*example.subject, example.value, example.holds)
            if key not in seen:
                seen.add(key)
                yield example

    @staticmethod
    def _forwards(window: Window) -> Iterator[Example]:
        for call in window.named("forward"):
            told = call.args or {}
            if not call.context.startswith("grad"):
                continue  # how a model is evaluated is not how it is trained, also where no run did both
            value = "training" if told.get("training") else "evaluation"
            value += " with dropout" if told.get("dropout") else ""
            value += " with statistics that are followed" if told.get("norm") else ""
            context = {"dropout": "some" if told.get("dropouts") or told.get("dropout") else "none"}
            yield Example(("forward", call.object, "mode"), True, context, (call.object,), call=call, value=value)

    @staticmethod
    def _losses(window: Window) -> Iterator[Example]:
        for call in window.named("backward"):
            dtype = (call.args or {}).get("dtype")
            if dtype:
                context = {"precision_of_the_weights": precision_of(window)}
                yield Example(("backward", "", "dtype"), True, context, ("backward",), call=call, value=dtype)

    def _limits(self, window: Window) -> Iterator[Example]:
        for name, argument in _LIMITS.items():
            for call in window.named(name):
                told = call.args or {}
                limit, held = told.get(argument), sum(told.get("of") or ())
                if limit is not None:
                    first = self._first.setdefault(name, limit)
                    yield Example((name, call.object, argument), limit == first, {}, (name,), first, limit, call)
                if held and isinstance(given := told.get("parameters"), int):
                    yield Example(
                        (name, call.object, "parameters"), given >= held, {}, (name,),
                        f"all {held} parameters of the optimizer", f"{given} parameters", call,
                    )  # fmt: skip

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        call, argument = subject.get("call"), subject.get("argument")
        if argument == "parameters":
            return f"{spoken(call)} is given all parameters of its optimizer"
        if call in _LIMITS:
            return f"{spoken(call)} has the same {argument} in every step"
        value = subject.get("value", " or ".join(map(str, subject.get("values", ()))))
        if call == "backward":
            return f"The loss is {value}"
        return f"{subject.get('object')} is trained in {str(value).replace(' with', ' mode with', 1) if ' with' in str(value) else f'{value} mode'}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([1.0] * 6)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([1.0] * 6 + [2.0])


def _run(limits: list[float]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [
        mini.window("backward", ("clip_grad_norm", {"args": {"max_norm": limit}}), "step optimizer0:SGD")
        for limit in limits
    ]
