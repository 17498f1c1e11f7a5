"""What is evaluated was not trained on, where it was not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from math import prod
from operator import attrgetter
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, fetches_of
from preflight.monitor.views.options import overfits
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Batch, Call, Window

_STEPS = 2
"""Steps before an evaluation counts: until then nobody knows what is trained on."""
_PASSES = 4
"""Passes of the first evaluation that are told of."""
_MOST_BATCHES = 4096
"""Batches that are kept to be known again."""
_LEAST_NUMBERS = 64
"""Numbers of which an input consists at least: smaller ones may be the same by chance."""
_TRAINED, _OTHER = "data that are trained on", "data that are not trained on"


class EvaluatedDataAlike(Relation):
    """A model is not evaluated on what it is trained on, where it was evaluated on something else in the runs this was learnt from.

    Learnt of the first evaluation after the training has begun: a model that is trained is run in evaluation mode and
    without gradients. What it is given is trained on where it comes from a loader that the training reads, or from
    one of the same data that has all of its samples, or where the same input was seen in training. A part of these, read by a
    loader of its own, is a probe of how well they are learnt, and other data for all that is known. Later
    evaluations are not asked: a run that is longer may come to score its training data, too. Where what is trained on
    was always evaluated, as the one graph of a graph network is, nothing is learnt. Nor is anything said of a run
    that goes on with the state of an optimizer, or that is to overfit a few samples by an option.
    """

    name = "evaluated-data-alike"
    fields = ("evaluation",)
    category = "data"
    needs = frozenset({"forward", "batch", "fetch", "loader.new", "backward", "step", "load_state_dict"})
    follows = (fetches_of, steps_of)
    wakes = frozenset({"forward", "backward", "load_state_dict"})
    severity = "warning"
    priority = 44
    least = 1
    support = 2
    learns = True
    cause = "the evaluation is given the loader or the tensors of the training instead of those that are held out"
    advice = "look at what the evaluation is called with: it should be the held-out data, as in the runs this was learnt from"

    def __init__(self) -> None:
        self._steps = 0
        self._told = 0
        self._names: set[str] = set()
        self._inputs: set[tuple[Any, ...]] = set()
        self._loaders: dict[str, Fetch] = {}  # what is trained from

    def see(self, window: Window) -> Iterator[Example]:
        if self._told or is_resumed(window) or overfits(window.run):
            return
        fetches = fetches_of(window)
        self._loaders.update((fetch.batch.loader, fetch) for fetch in fetches if fetch.trained)
        given: dict[str, list[Batch]] = {}
        for batch in window.batches:
            given.setdefault(batch.loader, []).append(batch)
        for call in window.named("forward"):
            training = bool((call.args or {}).get("training"))
            recorded = call.context.startswith("grad")
            if training and recorded:
                self._names.add(call.object)
                if len(self._inputs) < _MOST_BATCHES and (found := _input(call, given)) is not None:
                    self._inputs.add(found)
            elif not training and not recorded and self._due(call):
                yield from self._judge(call, _input(call, given), fetches)
        self._steps += len(steps_of(window))

    def _due(self, call: Call) -> bool:
        return self._steps >= _STEPS and self._told < _PASSES and call.object in self._names

    def _judge(self, call: Call, found: tuple[Any, ...] | None, fetches: list[Fetch]) -> Iterator[Example]:
        read = [one for one in fetches if one.batch.q < call.q and not one.trained]
        fetch = max(read, key=lambda one: one.batch.q, default=None)
        if found is None and (fetch is None or not self._loaders):
            return
        self._told += 1
        seen = found in self._inputs or (fetch is not None and self._is_trained_on(fetch))
        yield Example(("first",), True, {}, (call.object,), call=call, value=_TRAINED if seen else _OTHER)

    def _is_trained_on(self, held: Fetch) -> bool:
        """Whether samples of a loader's are those of one that the training reads."""
        if held.batch.loader in self._loaders:
            return True
        for trained in self._loaders.values():
            one, other = trained.facts, held.facts
            if one.get("base") is None or one.get("base") != other.get("base"):
                continue
            part, held_out = one.get("part"), other.get("part")
            if part and held_out and set(part) <= set(held_out):  # less of it is a probe beside the evaluation
                return True
        return False

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("value") != _OTHER

    @classmethod
    def departure(cls, subject: Mapping[str, Any], value: Any) -> str:
        return f"The first evaluation is of {value}, where it was of {subject.get('value')}"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"The first evaluation is of {subject.get('value')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("loader1", 50)
        yield _run("", 50)
        yield _run("loader1", 50, held=[1, 2])  # a probe
        overfitted = _run("loader0", 50)
        overfitted[0].run.begin = {"argv": ["train.py", "--overfit-batch"]}
        yield overfitted
        yield _run("", 50, beside=True)  # right after a step, and without a loader of its own

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("loader0", 50)
        yield _run("loader1", 50, held=[0, 1, 2, 3])
        yield _run("", 1)


def _input(call: Call, given: dict[str, list[Batch]]) -> tuple[Any, ...] | None:
    """What a model was given first in a pass; None where it is unknown or too small to be known again."""
    batches = given.get(f"forward:{call.object}", [])
    at = bisect_right(batches, call.q, key=attrgetter("q"))
    batch = batches[at] if at < len(batches) else None
    if batch is None or not batch.bits or batch.bits[0] is None or not batch.shapes:
        return None
    shape = tuple(batch.shapes[0])
    return (call.object, batch.bits[0], shape) if prod(shape) >= _LEAST_NUMBERS else None


def _run(loader: str, bits: int, beside: bool = False, held: list[int] | None = None) -> list[Window]:
    """Three steps, and an evaluation of a loader's batches, which begin with these bits; ``beside`` one more step.

    Trained on are the samples 0 to 3; the evaluation's loader has those that are ``held``.
    """
    mini = Mini({"model.weight": {}})
    parts = {"loader0": [0, 1, 2, 3], "loader1": [4, 5] if held is None else held}
    made = [(f"loader.new {name}", {"args": {"base": 0, "part": part, "of": 8}}) for name, part in parts.items()]
    judged = {"args": {"training": False}, "context": "nograd"}

    def given(number: int, name: str) -> tuple[str, dict[str, Any]]:
        return ("batch", {"loader": name, "bits": [number], "shapes": [[8, 16]]})

    def rows(number: int, name: str, more: dict[str, Any]) -> list[Any]:
        return [given(number, name), ("forward model", more), given(number, "forward:model")]

    def step(number: int) -> list[Any]:
        return [*rows(number, "loader0", {"args": {"training": True}}), "backward", "step optimizer0:SGD"]

    trained = [mini.window(*made, *step(0)), *(mini.window(*step(number)) for number in (1, 2))]
    evaluated = [row for number in range(2) for row in rows(bits + number, loader, judged)[0 if loader else 1 :]]
    return [*trained, mini.window(*(step(3) if beside else []), *evaluated)]
