"""Loaders draw and put together their batches by the means that they did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.scope import processes_of
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.window import Window

_EARLY = 4
_OWN = ("default_collate", "default_convert")


class LoadersAlike(Relation):
    """A loader that is trained from draws its samples, and puts together its batches, by the means of the runs this was learnt from.

    Learnt is of each such loader the class of its sampler, that of what makes batches of the samples, and the function that
    puts a batch together. They are told apart by the order in which the training first takes a batch of them. How large a
    batch is, how many workers there are and what is done with an incomplete batch are settings.
    """

    name = "loaders-alike"
    fields = ("which", "what")
    needs = frozenset({"loader.new", "batch", "fetch", "forward", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 45
    asked = ("processes",)
    learns = True
    least = 2
    support = 2
    cause = "the sampler, or the function that puts a batch together, is not handed to the loader, or another one is"
    advice = "look at how the loader is made: sampler, batch_sampler and collate_fn"

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._times: dict[str, int] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for name, facts in {fetch.batch.loader: fetch.facts for fetch in fetches_of(window) if fetch.trained}.items():
            which = self._places.setdefault(name, len(self._places))
            times = self._times[name] = self._times.get(name, 0) + 1
            if times > _EARLY:
                continue
            for word, what in (("sampler", "sampler"), ("batches", "batch sampler"), ("collate", "collate function")):
                if value := facts.get(word):
                    value = "torch's own" if value in _OWN else str(value)
                    yield Example((which, what), True, {"processes": processes_of(window)}, (name,), value=value)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        # Samples in order may be drawn before, and of those that are drawn at random another relation tells.
        return subject.get("value") in ("SequentialSampler", "RandomSampler", "BatchSampler", "NoneType")

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        which = subject.get("which")
        value = " or ".join(map(str, values_of(subject)))
        return f"The {subject.get('what')} of the loader{f' number {which + 1}' if which else ''} of the training is {value}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("pad")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("default_collate")


def _run(collate: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    made = ("loader.new loader0", {"args": {"sampler": "RandomSampler", "batches": "BatchSampler", "collate": collate}})
    batches = [("batch", {"loader": "loader0", "bits": [number]}) for number in range(_EARLY)]
    return [
        mini.window(*([] if number else [made]), batch, "forward model", "backward")
        for number, batch in enumerate(batches)
    ]
