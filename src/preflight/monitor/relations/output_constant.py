"""A module's output keeps its dtype and its shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class OutputConstant(Relation):
    """What a module gives out has always the same dtype, number of dimensions and last dimension.

    Learnt for each module by its name and for each kind of module together, and told apart by the automatic precision
    that was asked for and by whether gradients were recorded. Kinds of modules are only held to their dtype.
    Seen in detailed iterations, once for each value in each of them.
    """

    name = "output-constant"
    fields = ("of", "module", "position", "what")
    needs = frozenset({"module", "forward", "tensor"})
    wakes = frozenset({"tensor"})
    severity = "warning"
    priority = 45
    learns = True
    cause = "a cast, a precision context or a reshape in the model differs from the runs this was learnt from"
    advice = "compare the dtypes and shapes that go into the module with those of a correct run"

    def see(self, window: Window) -> Iterator[Example]:
        calls = {call.q: call for name in ("module", "forward") for call in window.named(name)}
        told: set[Any] = set()
        for seen in window.tensors:
            call = calls.get(seen.call)
            if call is None or not seen.position.startswith("out"):
                continue
            context = _context(call.context or "", bool((call.args or {}).get("training")))
            kind = (call.args or {}).get("type") or ""
            last = seen.shape[-1] if len(seen.shape) > 1 else 0
            values = (
                (("name", seen.object, seen.position, "dtype"), seen.dtype),
                (("kind", kind, seen.position, "dtype"), seen.dtype),
                (("name", seen.object, seen.position, "dimensions"), len(seen.shape)),
                (("name", seen.object, seen.position, "last dimension"), last),
            )
            for subject, value in values:
                key = (subject, value, *context.values())
                if key not in told:
                    told.add(key)
                    yield Example(subject, True, context, variables=(seen.object,), call=call, value=value)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        whose = f"module {subject.get('module')}" if subject.get("of") == "name" else f"each {subject.get('module')}"
        value = subject.get("value", "one of " + ", ".join(map(str, subject.get("values", ()))))
        return f"{subject.get('position')} of {whose} has {subject.get('what')} {value}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(["float32"] * 6)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(["float32"] * 6 + ["float16"])


def _context(context: str, training: bool) -> dict[str, Any]:
    words = context.split(",")
    asked = next((word.partition("=")[2] for word in words if word.startswith("autocast.")), "off")
    return {"autocast": asked, "gradients": words[0] == "grad", "training": training}


def _run(dtypes: list[str]) -> list[Window]:
    mini = Mini({"model.fc.weight": {}})
    windows = []
    for dtype in dtypes:
        window = mini.window(("module model.fc", {"args": {"type": "Linear", "training": True}}))
        row = {"object": "model.fc", "position": "out0", "dtype": dtype, "call": window.calls[0].q}
        window.tensors = [one._replace(i=window.iteration) for one in mini.window(("tensor", row)).tensors]
        windows.append(window)
    return windows
