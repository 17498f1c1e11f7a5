"""What is held out stays held out when a run is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, fetches_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.window import Window


class SplitsResume(Relation):
    """A process that resumes a run splits its data as the process did that began it.

    ``random_split`` draws from the generator that everyone shares. Where nobody has seeded it, each process draws other
    parts: what the weights of the checkpoint were trained on is evaluated on now, and every score is too good.
    Judged of a process that reads a file and restores an optimizer with its state before its first step. It is broken where
    it trains on one part and evaluates on another one of data that it has split so, with no seed set, no state of the
    generator put back, and no generator handed over. Data that no process before has seen may be split so rightly.
    """

    name = "splits-resume"
    category = "data"
    needs = frozenset({"load", "load_state_dict", "fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"load", "load_state_dict", "batch", "backward"})
    severity = "warning"
    priority = 8
    cause = "random_split draws from a generator without a seed, so that each process has other parts"
    advice = "give random_split a generator with a fixed seed, or keep the indices in the checkpoint"

    def __init__(self) -> None:
        self._read = False
        self._trained: set[Any] = set()  # data sets of which a part that was drawn by chance is trained on
        self._names: set[str] = set()
        self._judged: set[Any] = set()  # data sets that were told of

    def see(self, window: Window) -> Iterator[Example]:
        self._read = self._read or any(call.s == 0 for call in window.named("load"))
        resumed = is_resumed(window)
        for fetch in fetches_of(window):
            if "part" not in fetch.facts:
                continue
            if fetch.trained:
                self._names.add(fetch.batch.loader)
                if fetch.facts.get("by_chance"):
                    self._trained.add(fetch.facts.get("base"))
            elif fetch.batch.loader not in self._names and fetch.facts.get("base") not in self._judged:
                yield self._judge(fetch, resumed and self._read)

    def _judge(self, fetch: Fetch, resumed: bool) -> Example:
        loader, base = fetch.batch.loader, fetch.facts.get("base")
        wrong = resumed and bool(fetch.facts.get("by_chance")) and base in self._trained
        if wrong:
            self._judged.add(base)
        return Example(
            (),
            not wrong,
            {},
            variables=(loader,) if wrong else (),
            expected="the parts that the run was begun with" if wrong else None,
            seen="parts that this process has drawn, without a seed" if wrong else None,
            call=fetch.call,
            detail=f"The run was resumed, and what {loader} evaluates on was drawn anew" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(by_chance=False)
        yield _run(resumed=False)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run()


def _run(by_chance: bool = True, resumed: bool = True) -> list[Window]:
    mini = Mini({"model.weight": {}})
    facts = {"base": 0, "of": 8, "by_chance": by_chance}
    made = [
        (f"loader.new loader{number}", {"args": {**facts, "part": part}}) for number, part in enumerate(([1, 2], [3]))
    ]
    back: list[Any] = ["load", "load_state_dict model", ("load_state_dict optimizer0:Adam", {"args": {"state": 4}})]
    trained = ("fetch loader0", {"args": {"epoch": 0, "fetch": 0}}), ("batch", {"loader": "loader0", "fetch": 0})
    held = (
        ("fetch loader1", {"args": {"epoch": 0, "fetch": 0}, "context": "nograd"}),
        ("batch", {"loader": "loader1", "fetch": 0}),
    )
    first = mini.window(
        *(back if resumed else ()), *made, *trained, "forward model", "backward", "step optimizer0:Adam"
    )
    return [first, mini.window(*held, ("forward model", {"context": "nograd"}))]
