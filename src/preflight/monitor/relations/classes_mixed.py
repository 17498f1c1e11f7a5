"""A batch in training holds more than one class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, fetches_of
from preflight.monitor.window import Window

_FEWEST = 8
_ROW = 2


class ClassesMixed(Relation):
    """A loader that gives its samples in the order in which they are stored does not give batches of a single label.

    Folders of images list class after class, so that a loader without shuffling shows the model one class for a while.
    Judged are loaders with a sequential order whose batches are pairs of inputs and whole numbers, one for each of at
    least eight samples: broken where two batches in a row hold a single label, and two hold another one. Of other batches
    the last tensor is taken for labels where it holds a whole number for each sample, and these are 0 and 1.
    Data of one class alone, and classes of which all but one are rare, give a single label rightly.
    """

    name = "classes-mixed"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 9
    cause = "the training loader does not shuffle (shuffle=True is missing) and the samples are sorted by class"
    advice = "shuffle the training loader"

    def __init__(self) -> None:
        self._row: dict[str, tuple[int, Any]] = {}  # by loader: batches in a row with a single label, and which
        self._alone: dict[str, set[Any]] = {}  # labels that had such a row

    def see(self, window: Window) -> Iterator[Example]:
        for fetch in fetches_of(window):
            if not fetch.trained or fetch.order != "sequential" or not _has_labels(fetch):
                continue
            single = ((fetch.call.result or {}) if fetch.call is not None else {}).get("single") or {}
            last = str(len(fetch.batch.shapes) - 1)
            if not _is_a_pair(fetch) and single.get(last, 0) not in (0, 1):
                continue
            loader = fetch.batch.loader
            row, label = self._row.get(loader, (0, None))
            row = 0 if last not in single else row + 1 if label == single[last] else 1
            self._row[loader] = row, single.get(last)
            alone = self._alone.setdefault(loader, set())
            if row >= _ROW:
                alone.add(single[last])
            wrong = row >= _ROW and len(alone) > 1
            yield Example(
                (),
                not wrong,
                {"order": fetch.order},
                variables=(loader,) if wrong else (),
                expected="several labels in a batch",
                seen=f"label {single[last]} alone, {row} batches in a row" if wrong else None,
                call=fetch.call,
                detail=f"{loader} does not shuffle and gives batches of a single label" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _batches("sequential", None, None)
        yield _batches("sequential", {"1": 0}, None, {"1": 0})
        yield _batches("sequential", {"1": 0}, {"1": 0}, None, {"1": 0}, {"1": 0})  # the other class is rare
        lengths = [{"2": 9}, {"2": 9}, {"2": 8}, {"2": 8}, None]
        yield _batches("sequential", *lengths, shapes=((8, 9), (8,), (8,)))  # sorted by their lengths

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _batches("sequential", {"1": 0}, {"1": 0}, {"1": 1}, {"1": 1})
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
    order: str, *singles: dict[str, int] | None, shapes: tuple[tuple[int, ...], ...] = ((8, 3), (8,))
) -> list[Window]:
    """Batches of tensors of these shapes, with those of which all numbers are one."""
    dtypes = ["float32" if len(shape) > 1 else "int64" for shape in shapes]
    mini = Mini()
    windows = []
    for number, single in enumerate(singles):
        new: list[Any] = [("loader.new loader0", {"args": {"order": order}})] if not number else []
        call = (
            "fetch loader0",
            {"args": {"epoch": 0, "fetch": number}, "result": {"single": single} if single else None},
        )
        row = ("batch", {"fetch": number, "shapes": shapes, "dtypes": dtypes})
        windows.append(mini.window(*new, call, row, "backward"))
    return windows
