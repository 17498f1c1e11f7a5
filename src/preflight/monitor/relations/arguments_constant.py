"""Calls of the training are made with the same arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_ARGUMENTS = {
    "zero_grad": ("set_to_none",),
    "clip_grad_norm": ("max_norm", "parameters"),
    "clip_grad_value": ("clip_value", "parameters"),
    "backward": ("dtype", "numel", "roots", "retain_graph"),
    "step": ("closure",),
    "forward": ("training", "dropout", "norm"),
    "scheduler.step": ("by",),
}
"""What of each call is worth being held to; numbers of events and places in memory are not."""


class ArgumentsConstant(Relation):
    """A call that occurs in every step has the same arguments each time.

    The limit of clipping and how many parameters it is given, the dtype of the loss, how many parts of a model drop or
    follow statistics in a training pass: learnt for each call and object, told apart by whether gradients are recorded.
    """

    name = "arguments-constant"
    fields = ("call", "object", "argument")
    needs = frozenset(_ARGUMENTS)
    wakes = frozenset({*_ARGUMENTS})
    severity = "warning"
    priority = 44
    learns = True
    cause = "an argument, a mode or a precision is set in another way than in the runs this was learnt from"
    advice = "look at the call, and at what its arguments are computed from"

    def see(self, window: Window) -> Iterator[Example]:
        for name, arguments in _ARGUMENTS.items():
            seen: set[Any] = set()
            for call in window.named(name):
                told = call.args or {}
                subject = call.object.split(":")[-1] if name in ("step", "zero_grad") else call.object
                context = {"gradients": (call.context or "").startswith("grad")}
                if name == "forward" and not context["gradients"]:
                    continue  # how a model is evaluated is not how it is trained, also where no run did both
                for argument in arguments:
                    value = told.get(argument)
                    key = (subject, argument, value, context["gradients"])
                    if not isinstance(value, (str, int, float, bool)) or key in seen:
                        continue
                    seen.add(key)
                    variables = (call.object,) if call.object else (name,)
                    yield Example((name, subject, argument), True, context, variables, call=call, value=value)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = subject.get("value", "one of " + ", ".join(map(str, subject.get("values", ()))))
        of = f" of {subject['object']}" if subject.get("object") else ""
        return f"{subject.get('call')}{of} has {subject.get('argument')} {value}"

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
