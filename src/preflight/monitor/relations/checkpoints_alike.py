"""Checkpoints hold what they held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.window import Window

_MOST_PARTS = 64
"""As many the recorder tells: of a file with more, some are not known."""
_STATES = ("model", "optimizer", "scheduler", "scaler")


class CheckpointsAlike(Relation):
    """A checkpoint holds the parts that it held in the runs this was learnt from.

    Learnt is of each file that the program saves, by its name without the numbers in it, under which keys it holds what: the
    state of a model, of an optimizer, of a scheduler, of a gradient scaler, or something else. A file that holds more is not
    told of. A file of another name is another file, and is not judged; nor is one that holds no keys of the program's own,
    nor one of a run that has a schedule or a scaler where the other has none.
    """

    name = "checkpoints-alike"
    fields = ("file",)
    needs = frozenset({"save", "scheduler.new", "scaler.step"})
    wakes = frozenset({"save", "scheduler.new", "scaler.step"})
    whole = False
    severity = "warning"
    category = "checkpoint"
    priority = 44
    asked = ("schedule", "scaler")
    learns = True
    least = 1
    support = 1
    bounded = True
    cause = "something is missing from what is saved, or something else is saved under its key"
    advice = "compare what is handed to torch.save with a correct run"

    def __init__(self) -> None:
        self._made = {"schedule": "no", "scaler": "no"}

    def see(self, window: Window) -> Iterator[Example]:
        for word, name in (("schedule", "scheduler.new"), ("scaler", "scaler.step")):
            if self._made[word] == "no" and window.named(name):
                self._made[word] = "yes"
        for call in window.named("save"):
            told = call.args or {}
            parts, file = told.get("parts"), told.get("file")
            if told.get("kind") != "dict" or not parts or not file or len(parts) >= _MOST_PARTS:
                continue
            name = pattern_of(str(file).replace("\\", "/").rpartition("/")[2])
            yield Example(
                (name,), True, dict(self._made), (), call=call, value=sorted({_part(*one) for one in parts.items()})
            )

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        known = values_of(subject)
        held = set(value)
        if not known or any(set(one) <= held for one in known):
            return None
        least = min((sorted(set(one) - held) for one in known), key=len)
        return ", ".join(least)

    @classmethod
    def words(cls, value: Any) -> str:
        return ", ".join(value)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        known = values_of(subject)
        return f"{subject.get('file')} holds {' or '.join(map(cls.words, known))}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _saved({"model": "model", "optimizer": "optimizer", "step": "number"})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _saved({"model": "model", "step": "number"})


def _part(key: str, sort: str) -> str:
    """A part of a checkpoint: its key, and whose state it is where it is one."""
    sort = sort.removesuffix(" without state")
    name = pattern_of(key)
    return f"{name} (a {sort}'s state)" if sort in _STATES else name


def _saved(parts: dict[str, str]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told = {"kind": "dict", "file": "out/step_10.pt", "parts": parts}
    return [mini.window("step optimizer0:SGD", ("save", {"args": told}))]
