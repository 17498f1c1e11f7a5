"""A loss is computed by the same operations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.scope import processes_of
from preflight.monitor.views.listed import departure
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.views.tails import without_scale
from preflight.monitor.window import Call, Window

_LOOKS = 3
"""Passes of one place that must have ended in the same way before it is said of it."""
_MOST_LOOKS = 6
"""As often the recorder looks at a place: what it has not told by then it will not tell."""
_LONG = 40
"""Operations after which the recorder stops: of a graph that goes on, the rest is not known."""
_LAYOUT = frozenset(
    "View UnsafeView Reshape ReshapeAlias Alias Expand Squeeze Unsqueeze Unflatten T Transpose Permute Movedim Clone ToCopy "
    "Slice Select Split SplitWithSizes Chunk Unbind Cat Stack AsStrided Narrow Repeat NativeDropout Identity "
    "CheckpointFunction CompiledFunction _DDPSink".split()
)
"""Operations that lay numbers out, copy, cast or drop them: which of these there are depends on sizes and settings."""
_OPERATION = re.compile(r"\w+(?:\([^()]*\))?")


class LossesEndAlike(Relation):
    """A loss is computed by the operations that it was computed by in the runs this was learnt from.

    Learnt is which operations lie between the last weights and the loss, of how many dimensions their results are, and
    along which one they go: a softmax too many, one over another dimension, a term that was left out, a division that is
    missing. How often one occurs, in which order, and whatever lays out, casts or drops numbers is not part of it, because
    it depends on sizes and settings; nor is what multiplies or divides all of the loss, which is that of an accumulation or of a
    scaler (`losses-divided-alike`). Backward passes are told apart by the order in which their places in the code come
    first. Nothing is said of a place whose passes end
    in different ways, nor before three of them ended in the same one, nor of a graph that is too long to be told whole;
    nor of a run that goes on with the state of an optimizer, because a term may begin later in a training.
    """

    name = "losses-end-alike"
    fields = ("which",)
    needs = frozenset({"backward", "step", "load_state_dict", "flow"})
    wakes = frozenset({"backward", "step", "load_state_dict"})
    severity = "warning"
    priority = 40
    asked = ("processes",)
    learns = True
    cause = "the loss is put together in another way than in the runs this was learnt from"
    advice = "compare what is done with the output of the model before backward() with a correct run"

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._ends: dict[str, set[tuple[str, ...]]] = {}
        self._looks: dict[str, int] = {}
        self._passes: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        if is_resumed(window):
            return
        stepped = {step.call.q: step for step in steps_of(window)}
        for call in window.plain:
            if call.name == "backward":
                self._take(call)
            elif call.q in stepped:
                yield from self._judge(stepped[call.q].named("backward"), window)

    def _take(self, call: Call) -> None:
        place = call.place or ""
        self._places.setdefault(place, len(self._places))
        self._looks[place] = self._looks.get(place, 0) + 1
        told = (call.args or {}).get("tail")
        if told:
            self._ends.setdefault(place, set()).add(_end(told))

    def _judge(self, passes: Sequence[Call], window: Window) -> Iterator[Example]:
        for call in {call.place: call for call in passes}.values():
            place = call.place or ""
            ends, looks = self._ends.get(place, set()), self._looks.get(place, 0)
            told = self._passes[place] = self._passes.get(place, 0) + 1
            if len(ends) != 1 or looks < _LOOKS or told > _MOST_LOOKS + _LOOKS:
                continue
            (end,) = ends
            if end:
                context = {"processes": processes_of(window)}
                yield Example((self._places[place],), True, context, ("loss",), call=call, value=" ".join(end))

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        said = departure(map(_OPERATION.findall, values_of(subject)), _OPERATION.findall(value))
        return f"{_which(subject)} is computed {said}" if said else ""

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        value = subject.get("value", " or by ".join(map(str, subject.get("values", ()))))
        return f"{_which(subject)} is computed by {value}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(["NllLoss", "LogSoftmax"])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(["NllLoss", "LogSoftmax", "Softmax"])


def _which(subject: Mapping[str, Any]) -> str:
    which = subject.get("which")
    return f"The loss{f' number {which + 1}' if which else ''}"


def _end(told: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """The operations of the end of a graph, each once, in the order of the alphabet; none where it is not told whole."""
    if len(told) >= _LONG:
        return ()
    inner, _ = without_scale([*map(list, told)])
    return tuple(sorted({_word(name, shape, dim) for name, shape, dim, *_ in inner if name not in _LAYOUT}))


def _word(name: str, shape: Sequence[int] | None, dim: int | None) -> str:
    """An operation with the dimensions of its result, and the one that it goes along, counted from the last."""
    if shape is None or not shape:
        return name
    along = "" if dim is None or dim >= len(shape) else f", {dim if dim < 0 else dim - len(shape)}"
    return f"{name}({len(shape)}{along})"


def _run(names: Sequence[str]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    tail = [[name, [8, 4] if place else [], 1 if "Softmax" in name else None, []] for place, name in enumerate(names)]
    passes = [("backward", {"args": {"tail": tail}}), *["backward"] * 7]
    return [mini.window(one, "step optimizer0:SGD") for one in passes]
