"""What is held out is not trained on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, fetches_of
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_TRAINED = 2
_EARLY = 16
_HELD_OUT = re.compile(r"(^|_)(val|valid|validation|test|dev|held_out|heldout|holdout)(_|$)", re.IGNORECASE)


class HeldOutStaysOut(Relation):
    """Two parts of one data set, one to train on and one to evaluate on, have no samples in common.

    Parts that are cut from different orders of the same data (a shuffle in between, another seed) overlap, and the
    evaluation is too good.
    Judged for parts by indices (``Subset``, ``random_split``, ``SubsetRandomSampler``) of one data set: that of the loader
    that feeds the training, and that of a loader which is only ever read without training, before or after. An evaluation on nothing but
    training data is a score of the training, and is not meant, unless the program calls its loader a held-out one (``val_loader``,
    ``test_data``), its part is a smaller one of what is trained on, and it is gone through again while no other loader is
    evaluated on anything else: who trains on all parts in the end may still look at one of them beside the test.
    """

    name = "held-out-stays-out"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 8
    cause = "the parts are cut from different orders of the data: one before a shuffle and one after it"
    advice = "draw one order with a fixed generator, and cut both parts from it"

    def __init__(self) -> None:
        self._count: dict[str, int] = {}
        self._training: Fetch | None = None
        self._judged: dict[tuple[str, str], tuple[int, int]] = {}
        self._others: set[str] = (
            set()
        )  # loaders that are evaluated on samples that are not trained on, as far as is known
        self._early: dict[str, Fetch] = {}  # by loader: what was read before anything was trained

    def see(self, window: Window) -> Iterator[Example]:
        for fetch in fetches_of(window):
            name = fetch.batch.loader
            if fetch.trained:
                self._count[name] = self._count.get(name, 0) + 1
                self._training = fetch
                if self._count[name] == _TRAINED:
                    for other in [one for one in self._early if not self._count.get(one)]:
                        yield from self._judge(self._early.pop(other))
            elif not self._count.get(name):
                if self._training is None and len(self._early) < _EARLY:
                    self._early[name] = fetch
                yield from self._judge(fetch)

    def _judge(self, held: Fetch) -> Iterator[Example]:
        training = self._training
        if training is None or self._count[training.batch.loader] < _TRAINED:
            return
        one, other = training.facts, held.facts
        if one.get("base") != other.get("base") or not other.get("part"):
            self._others.add(held.batch.loader)
        if (
            one.get("base") is None
            or one.get("base") != other.get("base")
            or not one.get("part")
            or not other.get("part")
        ):
            return
        pair = training.batch.loader, held.batch.loader
        if pair not in self._judged:
            self._judged[pair] = len(set(one["part"]) & set(other["part"])), len(other["part"])
        common, size = self._judged[pair]
        if not common:
            self._others.add(held.batch.loader)
        again = held.call is not None and (held.call.args or {}).get("epoch", 0) > 0
        whole = again and common == size < len(one["part"]) and _is_held_out(other.get("names") or ())
        wrong = 0 < common < size or (whole and not self._others)
        yield Example(
            (),
            not wrong,
            {},
            variables=pair if wrong else (),
            expected="samples that are not trained on",
            seen=f"in {pair[0]} too: {common} of {counted(size, 'sample')} of {pair[1]}" if wrong else None,
            call=held.call,
            detail=f"{pair[1]} evaluates on samples that {pair[0]} gives to the training" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([4, 5, 6], [1, 2, 3])
        yield _run([1, 2, 3, 4], [1, 2], names=["train_probe"])
        yield _run([1, 2], [1, 2], names=["val_loader"])
        yield _run([1, 2, 3, 4], [1, 2])
        yield _run([1, 2, 3, 4], [1, 2], names=["val_loader"], beside=True)  # and a test on other data

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([1, 4, 5, 6], [1, 2, 3])
        yield _run([1, 4, 5, 6], [1, 2, 3], before=True)
        yield _run([1, 2, 3, 4], [1, 2], names=["loader", "valid_loader"])


def _is_held_out(names: Sequence[str]) -> bool:
    """Whether a loader is called one of data that are held out, and by no name that of the training."""
    return any(map(_HELD_OUT.search, names)) and not any("train" in name.lower() for name in names)


def _run(
    trained: list[int], held: list[int], before: bool = False, names: list[str] | None = None, beside: bool = False
) -> list[Window]:
    """Steps, and an evaluation at their beginning, or two at their end; ``beside`` with another data set in each of them."""
    mini = Mini({"model.weight": {}})
    made: list[Any] = [
        (f"loader.new loader{at}", {"args": {"base": 0, "part": part, "of": 8, "names": names if at else []}})
        for at, part in enumerate((trained, held))
    ]
    windows = [mini.window(*made, *(_evaluated(1, 0) if before else ()))]
    for number in range(3):
        rows: list[Any] = [
            ("fetch loader0", {"args": {"epoch": 0, "fetch": number}}),
            ("batch", {"fetch": number}),
            *("forward model", "backward", "step optimizer0:SGD"),
        ]
        windows.append(mini.window(*rows))
    ends = [] if before else [[one for at in (1, 2)[: 1 + beside] for one in _evaluated(at, epoch)] for epoch in (0, 1)]
    return [*windows, *(mini.window(*rows) for rows in ends)]


def _evaluated(loader: int, epoch: int) -> list[Any]:
    given: dict[str, Any] = {"loader": f"loader{loader}", "fetch": 0}
    fetch = (f"fetch loader{loader}", {"args": {"epoch": epoch, "fetch": 0}})
    return [fetch, ("batch", {**given, "epoch": epoch}), ("forward model", {"context": "nograd"})]
