"""The layers of a model compute in the precision that they did, and its output has as many dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from operator import attrgetter
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Premise, Relation
from preflight.monitor.scope import precision_of
from preflight.monitor.window import Call, Window


class OutputConstant(Relation):
    """What the layers of a model give out has the dtype that it had, and its own output as many dimensions.

    Learnt for all layers together, for each kind of layer where they differ, and for the output of each model that the
    program calls; told apart by the automatic precision that was asked for, by the dtype of what went in, and by whether
    gradients were recorded. Layers are modules without parts; how large an output is, is a setting and not learnt.
    Seen in detailed iterations, once for each value in each of them.
    """

    name = "output-constant"
    fields = ("of", "module", "what")
    needs = frozenset({"module", "forward", "tensor"})
    wakes = frozenset({"tensor"})
    severity = "warning"
    priority = 45
    asked = ("autocast", "input", "precision_of_the_weights")
    learns = True
    cause = "a cast, a precision context or a reshape in the model differs from the runs this was learnt from"
    advice = "compare the dtypes and shapes that go into the module with those of a correct run"

    def see(self, window: Window) -> Iterator[Example]:
        calls = {call.q: call for name in ("module", "forward") for call in window.named(name)}
        given = {seen.call: seen.dtype for seen in window.tensors if seen.position == "in0"}
        leaves = _leaves(calls.values())
        told: set[Any] = set()
        precision = precision_of(window)
        for seen in window.tensors:
            call = calls.get(seen.call)
            if call is None or seen.position != "out0":
                continue
            context = {**_context(call, given.get(seen.call, "none")), "precision_of_the_weights": precision}
            for subject, value in self._values(call, seen.dtype, len(seen.shape), call.q in leaves):
                key = (subject, value, *context.values())
                if key not in told:
                    told.add(key)
                    yield Example(subject, True, context, variables=(seen.object,), call=call, value=value)

    @staticmethod
    def _values(call: Call, dtype: str, dimensions: int, leaf: bool) -> Iterator[tuple[tuple[str, str, str], Any]]:
        if call.name == "forward":
            yield ("model", call.object, "dimensions"), dimensions
            yield ("model", call.object, "dtype"), dtype
        elif leaf:
            yield ("every", "layer", "dtype"), dtype
            yield ("kind", (call.args or {}).get("type") or "", "dtype"), dtype

    @classmethod
    def follows_from(cls, subject: Mapping[str, Any]) -> Iterator[tuple[Premise, ...]]:
        if subject.get("what") == "dtype" and subject.get("of") != "every" and "value" in subject:
            every = {"of": "every", "module": "layer", "what": "dtype", "value": subject["value"]}
            yield (Premise(cls.name, every),)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = subject.get("value", " or ".join(map(str, subject.get("values", ()))))
        whose = {"model": f"of {subject.get('module')}", "kind": f"of each {subject.get('module')}"}
        of = whose.get(str(subject.get("of")), "of every layer")
        return (
            f"The output {of} has {value} dimensions"
            if subject.get("what") == "dimensions"
            else f"The output {of} is {value}"
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(["float32"] * 6)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(["float32"] * 6 + ["float16"])


def _context(call: Call, given: str) -> dict[str, Any]:
    words = (call.context or "").split(",")
    asked = next((word.partition("=")[2] for word in words if word.startswith("autocast.")), "off")
    training = bool((call.args or {}).get("training"))
    return {"autocast": asked, "gradients": words[0] == "grad", "training": training, "input": given}


def _leaves(calls: Iterable[Call]) -> set[int]:
    """The calls that no other of them lies in, by number: where one does, the next of its thread is such a one."""
    found: set[int] = set()
    by_thread: dict[int, list[Call]] = {}
    for call in calls:
        by_thread.setdefault(call.thread, []).append(call)
    for own in by_thread.values():
        own.sort(key=attrgetter("q"))
        found.update(one.q for one, after in pairwise(own) if after.q > one.e)
        found.add(own[-1].q)
    return found


def _run(dtypes: list[str]) -> list[Window]:
    mini = Mini({"model.fc.weight": {}})
    windows = []
    for dtype in dtypes:
        window = mini.window(("module model.fc", {"args": {"type": "Linear", "training": True}}))
        row = {"object": "model.fc", "position": "out0", "dtype": dtype, "call": window.calls[0].q}
        window.tensors = [one._replace(i=window.iteration) for one in mini.window(("tensor", row)).tensors]
        windows.append(window)
    return windows
