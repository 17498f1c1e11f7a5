"""A model is trained through the layers that it was trained through."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.depth import layers_of
from preflight.monitor.views.listed import departure, difference, listed
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.window import Call, Window, within

_LOOKS = 3
_MOST_LOOKS = 8
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_OPTIONAL = re.compile(r"Drop(?![a-z])|Drop(?:out|path|block)|StochasticDepth|Identity")
"""Classes of layers that a rate of zero leaves out, or puts another one in the place of."""


class LayersAlike(Relation):
    """A model is trained through the layers, of the kinds, that it was trained through in the runs this was learnt from.

    Learnt is of each model that the program calls which of its parts a training pass calls, by their names without the numbers
    in them, of which class each is, and which of torch's switches are set for it that are no size: a row for padding, both
    directions, statistics that are followed. A layer without parameters that is left out, as an activation, leaves no other
    trace. Layers that drop, and those that hand on what they get, are left out: a rate of zero is a setting, and many programs
    make no such layer then, or another one. Seen in detailed iterations; nothing is said before three of them agree, nor of
    models of another depth but where blocks come several times, nor of a run that goes on with the state of an optimizer.
    """

    name = "layers-alike"
    fields = ("called",)
    needs = frozenset({"module", "forward", "backward", "load_state_dict"})
    wakes = frozenset({"module", "backward", "load_state_dict"})
    severity = "warning"
    priority = 39
    asked = ("layers",)
    learns = True
    least = 2
    support = 2
    bounded = True
    cause = "a layer is not called, is made with another setting, or another one stands in its place"
    advice = "compare the forward() of the model, and how its layers are made, with a correct run"

    def __init__(self) -> None:
        self._looks: dict[str, int] = {}
        self._parts: dict[str, set[tuple[str, ...]]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        modules = window.named("module")
        if is_resumed(window) or not modules or not window.complete:
            return
        found: dict[str, set[str]] = {}
        calls: dict[str, Call] = {}
        for root in window.named("forward"):
            if root.context.startswith("grad") and (root.args or {}).get("training"):
                name = pattern_of(root.object)
                if self._looks.get(name, 0) >= _MOST_LOOKS:
                    continue
                calls[name] = root
                inside = (one for one in within(modules, root) if one.thread == root.thread)
                found.setdefault(name, set()).update(_told(one) for one in inside if not _optional(one))
        for name, parts in found.items():
            if not parts:
                continue
            looks = self._looks[name] = self._looks.get(name, 0) + 1
            seen = self._parts.setdefault(name, set())
            seen.add(tuple(sorted(parts)))
            if looks >= _LOOKS and len(seen) == 1:
                context = {"layers": layers_of(window.run)}
                yield Example((name,), True, context, (name,), call=calls[name], value=sorted(parts))

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        said = departure(values_of(subject), value, by="also through")
        return f"{subject.get('called')} is trained {said}" if said else ""

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        return difference(values_of(subject), value)

    @classmethod
    def words(cls, value: Any) -> str:
        return listed(value)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        known = values_of(subject)
        return f"{subject.get('called')} is trained through {' or '.join(map(listed, known))}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("model.0", "model.1")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("model.0")


def _optional(call: Call) -> bool:
    return _OPTIONAL.search(str((call.args or {}).get("type"))) is not None


def _told(call: Call) -> str:
    """A part in words: its name, its class and its settings."""
    told = call.args or {}
    settings = f" with {told['settings']}" if told.get("settings") else ""
    return f"{_NUMBER.sub('*', call.object)} ({told.get('type')}{settings})"


def _run(*parts: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    kinds = {"model.0": "Linear", "model.1": "ReLU"}
    inside = [(f"module {part}", {"args": {"type": kinds[part], "training": True}}) for part in parts]
    forward = ("forward model", {"args": {"training": True, "type": "Net"}, "inside": inside})
    return [mini.window(forward, "backward", "step optimizer0:SGD") for _ in range(5)]
