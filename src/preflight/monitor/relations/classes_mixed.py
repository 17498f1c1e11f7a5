"""A batch in training holds more than one class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, fetches_of
from preflight.monitor.window import Window

_FEWEST = 8
_ROW = 2
_RISING = 3
"""Batches in a row whose labels lie in order, from the first class on, and as many classes in them."""


class _Rising:
    """How far the labels of a loader lie class after class."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.batches = 0
        self.mixed = 0

    def see(self, first: int, last: int, stepped: bool) -> bool:
        """Take in a batch in which labels lie in order; return whether there were enough of them.

        Only a batch before which a step was made since the last one counts: the data of one step has no order.
        """
        if self.last is None or not self.last <= first <= self.last + 1:
            self.batches = self.mixed = 0
            if first != 0:  # it may be anything that is counted
                self.last = None
                return False
        self.last = last
        self.batches += stepped
        self.mixed += stepped and first < last
        return self.batches >= _RISING and self.mixed >= _ROW and last + 1 >= _RISING


class ClassesMixed(Relation):
    """A loader that gives its samples in the order in which they are stored does not give batches of a single label.

    Folders of images list class after class, so that a loader without shuffling shows the model one class for a while.
    Judged are loaders with a sequential order whose batches are pairs of inputs and whole numbers, one for each of at
    least eight samples: broken where two batches in a row hold a single label, and two hold another one. Of other batches
    the last tensor is taken for labels where it holds a whole number for each sample, and these are 0 and 1.
    Where a batch holds the end of one class and the beginning of the next, it is broken once the labels of three batches in
    a row lie in order from class 0 on, with no class left out and each in several samples: two of them with a border, and
    three classes in all.
    Batches whose gradients are added up for one step count as one.
    Data of one class alone, and classes of which all but one are rare, give a single label rightly.
    """

    name = "classes-mixed"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward", "step"})
    follows = (fetches_of,)
    wakes = frozenset({"batch", "step"})
    severity = "warning"
    priority = 9
    cause = "the training loader does not shuffle (shuffle=True is missing) and the samples are sorted by class"
    advice = "shuffle the training loader"

    def __init__(self) -> None:
        self._row: dict[str, tuple[int, Any]] = {}  # by loader: batches in a row with a single label, and which
        self._alone: dict[str, set[Any]] = {}  # labels that had such a row
        self._rising: dict[str, _Rising] = {}
        self._steps = 0
        self._at: dict[str, int] = {}  # by loader: the steps that were made before its last batch

    def see(self, window: Window) -> Iterator[Example]:
        yield from self._judge(window)
        self._steps += len(window.named("step"))

    def _judge(self, window: Window) -> Iterator[Example]:
        steps = window.named("step")
        for fetch in fetches_of(window):
            if not fetch.trained or fetch.order != "sequential" or not _has_labels(fetch):
                continue
            told = (fetch.call.result or {}) if fetch.call is not None else {}
            single, last = told.get("single") or {}, str(len(fetch.batch.shapes) - 1)
            if not _is_a_pair(fetch) and single.get(last, 0) not in (0, 1):
                continue
            loader = fetch.batch.loader
            made = self._steps + sum(step.q < fetch.batch.q for step in steps)
            stepped = self._at.get(loader) != made
            self._at[loader] = made
            row, label = self._row.get(loader, (0, None))
            row = 0 if last not in single else row + stepped if label == single[last] else int(stepped)
            self._row[loader] = row, single.get(last)
            alone = self._alone.setdefault(loader, set())
            if row >= _ROW:
                alone.add(single[last])
            rises = _is_a_pair(fetch) and self._rises(fetch, single.get(last), stepped)
            wrong = (row >= _ROW and len(alone) > 1) or rises
            yield Example(
                (),
                not wrong,
                {"order": fetch.order},
                variables=(loader,) if wrong else (),
                expected="several labels in a batch",
                seen=self._seen(loader, single.get(last), row, rises) if wrong else None,
                call=fetch.call,
                detail=f"{loader} does not shuffle and gives {'class after class' if rises else 'batches of a single label'}"
                if wrong
                else "",
            )

    def _rises(self, fetch: Fetch, single: int | None, stepped: bool) -> bool:
        """Whether the labels of a batch go on where those of the batches before ended, and there were enough of them."""
        told = (fetch.call.result or {}) if fetch.call is not None else {}
        rising = (told.get("rising") or {}).get(str(len(fetch.batch.shapes) - 1))
        known = self._rising.setdefault(fetch.batch.loader, _Rising())
        if rising is not None:
            return known.see(rising[0], rising[1], stepped)
        if single is not None:
            return known.see(single, single, stepped)
        self._rising[fetch.batch.loader] = _Rising()
        return False

    def _seen(self, loader: str, label: int | None, row: int, rises: bool) -> str:
        if rises:
            return f"labels in order from 0 to {self._rising[loader].last}, {self._rising[loader].batches} batches in a row"
        return f"label {label} alone, {row} batches in a row"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _batches("sequential", None, None)
        yield _batches("sequential", {"1": 0}, None, {"1": 0})
        yield _batches("sequential", {"1": 0}, {"1": 0}, None, {"1": 0}, {"1": 0})  # the other class is rare
        lengths = [{"2": 9}, {"2": 9}, {"2": 8}, {"2": 8}, None]
        yield _batches("sequential", *lengths, shapes=((8, 9), (8,), (8,)))  # sorted by their lengths

        borders: list[Any] = [
            {"rising": {"1": pair}} for pair in ([0, 2], [1, 3], [3, 5], [4, 5])
        ]  # not one after the other
        yield _batches("sequential", None, None, told=borders)
        counted = [{"rising": {"1": pair}} for pair in ([3, 5], [5, 7], [7, 8], [8, 9])]
        yield _batches("sequential", told=counted)
        borders = [{"rising": {"1": pair}} for pair in ([0, 1], [1, 2], [3, 4])]
        yield _batches("sequential", told=borders, each=3)  # gradients of all of them are added up
        yield _batches("sequential", {"1": 0}, {"1": 0}, {"1": 1}, {"1": 1}, each=4)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _batches("sequential", told=[{"rising": {"1": pair}} for pair in ([0, 1], [1, 2], [3, 4])])
        yield _batches("sequential", {"1": 0}, {"1": 0}, {"1": 1}, {"1": 1})
        yield _batches("sequential", *[{"1": 0}] * 4, *[{"1": 1}] * 4, each=2)
        yield _batches("sequential", {"2": 1}, {"2": 1}, {"2": 0}, {"2": 0}, shapes=((8,), (8,), (8,)))


def _has_labels(fetch: Fetch) -> bool:
    """Whether the last tensor of a batch holds a whole number for each of its samples, and something stands before it."""
    shapes, dtypes = fetch.batch.shapes, fetch.batch.dtypes
    return (
        len(shapes) > 1
        and len(shapes[-1]) == 1
        and shapes[-1][0] >= _FEWEST
        and all(shape[:1] == shapes[-1] for shape in shapes)
        and dtypes[-1] in ("int64", "int32")
    )


def _is_a_pair(fetch: Fetch) -> bool:
    """Whether a batch is inputs with a label for each."""
    shapes, dtypes = fetch.batch.shapes, fetch.batch.dtypes
    return len(shapes) == 2 and len(shapes[0]) > 1 and dtypes[0].startswith("float")


def _batches(
    order: str,
    *singles: dict[str, int] | None,
    shapes: tuple[tuple[int, ...], ...] = ((8, 3), (8,)),
    told: Sequence[dict[str, Any]] = (),
    each: int = 1,
) -> list[Window]:
    """Batches of tensors of these shapes, with those of which all numbers are one; a step after so many of them each."""
    dtypes = ["float32" if len(shape) > 1 else "int64" for shape in shapes]
    mini = Mini()
    windows = []
    results = [{"single": single} if single else None for single in singles]
    for number, result in enumerate([*results, *told]):
        new: list[Any] = [("loader.new loader0", {"args": {"order": order}})] if not number else []
        call = (
            "fetch loader0",
            {"args": {"epoch": 0, "fetch": number}, "result": result},
        )
        row = ("batch", {"fetch": number, "shapes": shapes, "dtypes": dtypes})
        step = () if (number + 1) % each else ("step optimizer0:SGD",)
        windows.append(mini.window(*new, call, row, "backward", *step))
    return windows
