"""What is saved was kept apart from the model, where it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.scope import torch_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.window import Window

_APART, _OWN = "weights that were kept apart", "the weights that the model has now"


class SavedApartAlike(Relation):
    """A file of weights that were kept apart from the model, in the runs this was learnt from, is not one of its weights of now.

    The best weights so far are copied when they are found, and saved at the end. ``state_dict()`` copies nothing:
    without ``deepcopy`` or ``clone`` what was kept moves on with the training, and the file holds the last weights
    under the name of the best. Learnt of each file, by its name without the numbers in it, and of each part of it,
    from whether the tensors that are saved lie in the memory of the model. It is asked on the same kind of device
    alone, because ``cpu()`` is a copy only elsewhere.
    """

    name = "saved-apart-alike"
    fields = ("file", "part")
    needs = frozenset({"save", "state"})
    wakes = frozenset({"save"})
    whole = False
    severity = "warning"
    category = "checkpoint"
    priority = 33
    asked = ("torch",)
    learns = True
    least = 1
    support = 1
    cause = "state_dict() was kept without a copy, and its tensors are those that go on being trained"
    advice = "keep copy.deepcopy(model.state_dict()), or a clone of each tensor"

    def see(self, window: Window) -> Iterator[Example]:
        saves = {call.q: call for call in window.named("save")}
        for state in window.states if saves else ():
            told = state.extra or {}
            call = saves.get(told.get("call", -1)) if state.what == "file" else None
            file = str((call.args or {}).get("file") or "") if call is not None else ""
            alias = told.get("alias")
            if not file or alias not in (0, len(state.ids)) or told.get("unknown"):
                continue
            name = pattern_of(file.replace("\\", "/").rpartition("/")[2])
            value = _OWN if alias else _APART
            context = {"torch": torch_of(window)}
            yield Example((name, told.get("part", "")), True, context, (name,), call=call, value=value)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != _APART

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        return f"{_what(subject)} holds {value}, where it held {subject.get('value')}"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{_what(subject)} holds {subject.get('value')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(1)


def _what(subject: Mapping[str, Any]) -> str:
    part = subject.get("part")
    return f"{subject.get('file')}{f' ({part})' if part else ''}"


def _run(alias: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    first = mini.window(("before", {"model.weight": (1.0, 7)}), "step optimizer0:SGD")
    last = mini.window(("save", {"args": {"file": "runs/best.pt"}}), ("before", {"model.weight": (1.0, 9)}))
    extra = {"call": last.named("save")[0].q, "part": "", "alias": alias}
    last.states = [last.states[0]._replace(moment="saved", what="file", extra=extra)]
    return [first, last]
