"""What is held out now was not trained on before, by the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import Fetch, fetches_of
from preflight.monitor.views.values import CLOSE, Value, values_of
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted

_MOST = 16
"""Parts that are remembered."""


class _Part(NamedTuple):
    """A part of a data set that is trained on, and what was evaluated meanwhile and has nothing in common with it."""

    base: Any
    trained: frozenset[int]
    held: set[int]


class HeldOutWasUnseen(Relation):
    """When another part of the data is held out, the weights have not been trained on it.

    In a cross-validation each fold is evaluated by a model that never saw it. Where the model is made once, before the
    folds, the second one begins with the weights of the first and is evaluated on what these were trained on: from then on
    every score is too good. So it is where a data set is split anew in each epoch.
    Judged for parts by indices (``Subset``, ``random_split``, ``SubsetRandomSampler``) of one data set. It is broken where
    a part that has nothing in common with the one that is trained on was in what was trained on before, what was held out
    before is trained on now, and the weights of the first step since are those that the last step before had left.
    A new model, weights that are reset or loaded, and parts that are never trained on are all left alone; so are tasks that
    come one after the other, and a part that is larger than what is trained on: it is a pool to choose from.
    """

    name = "held-out-was-unseen"
    category = "data"
    needs = frozenset({"fetch", "batch", "backward", "state", "step"})
    follows = (fetches_of,)
    wakes = frozenset({"batch"})
    severity = "warning"
    priority = 8
    cause = "the model is made once, before the loop over folds, or the data is split anew while the training goes on"
    advice = "make a new model (and optimizer) for each fold, or split once, with a fixed generator"

    def __init__(self) -> None:
        self._now: _Part | None = None
        self._past: list[_Part] = []
        self._left: dict[int, State] = {}  # by optimizer: what its last step left
        self._waiting = False  # whether no step has been seen since another part is trained on
        self._parts: dict[str, frozenset[int]] = {}
        self._trained: set[str] = set()  # loaders that were trained on

    def see(self, window: Window) -> Iterator[Example]:
        fetches = fetches_of(window)
        if self._now is None and not any(one.facts.get("part") for one in fetches):
            return
        events: list[tuple[int, Fetch | State]] = [(one.batch.q, one) for one in fetches]
        events += [(one.q, one) for one in window.states if one.what == "parameter"]
        for _, event in sorted(events, key=lambda pair: pair[0]):
            if isinstance(event, State):
                self._weights(event)
            elif event.trained:
                self._train(event)
            else:
                yield from self._hold(event)

    def _weights(self, state: State) -> None:
        index = (state.extra or {}).get("optimizer", -1)
        if state.moment == "after_step":
            self._left[index] = state
        elif state.moment == "before_step" and self._waiting and index >= 0:
            known: dict[int, Value] = {}
            for one in self._left.values():
                known.update(values_of(one))
            if not all(ident in known and _same(known[ident], value) for ident, value in values_of(state).items()):
                self._past.clear()
            self._left.clear()  # of other weights, or of optimizers that are gone
            self._waiting = False

    def _part(self, fetch: Fetch) -> frozenset[int]:
        name = fetch.batch.loader
        if name not in self._parts:
            if len(self._parts) >= _MOST:
                self._parts.clear()
            self._parts[name] = frozenset(fetch.facts.get("part") or ())
        return self._parts[name]

    def _train(self, fetch: Fetch) -> None:
        part, base = self._part(fetch), fetch.facts.get("base")
        self._trained.add(fetch.batch.loader)
        now = self._now
        if now is not None and now.base == base and now.trained == part:
            return
        if now is None or base is None or not part or now.base != base:
            self._past.clear()
        else:
            self._past = [*self._past, now][-_MOST:]
            self._waiting = True
        self._now = _Part(base, part, set()) if base is not None and part else None

    def _hold(self, fetch: Fetch) -> Iterator[Example]:
        now, part = self._now, self._part(fetch)
        if now is None or not part or fetch.facts.get("base") != now.base or fetch.batch.loader in self._trained:
            return
        if part <= now.held:
            return  # it was judged
        if part & now.trained:
            return
        now.held.update(part)
        if self._waiting:
            return
        seen = next((len(part & one.trained) for one in self._past if part & one.trained and one.held & now.trained), 0)
        seen = 0 if len(part) > len(now.trained) else seen  # a pool to choose from
        yield Example(
            (),
            not seen,
            {},
            variables=(fetch.batch.loader,) if seen else (),
            expected="samples that these weights were never trained on",
            seen=f"trained on before: {seen} of {counted(len(part), 'sample')} of {fetch.batch.loader}"
            if seen
            else None,
            call=fetch.call,
            detail=f"{fetch.batch.loader} holds out samples that the same weights were trained on before"
            if seen
            else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _folds(anew=True)
        yield _folds(parts=(([1, 2], [3]), ([4, 5], [6])))  # tasks, one after the other
        pools = ([1, 2], [3, 4, 5, 6]), ([3, 4], [1, 2, 5, 6])
        yield _folds(parts=pools)  # a few samples are chosen from the rest again and again

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _folds()


def _same(one: Value, other: Value) -> bool:
    """Whether two values are known to be the same."""
    if one[1] is not None and other[1] is not None:
        return one[1] == other[1]
    if one[0] is None or other[0] is None:
        return False
    return abs(one[0] - other[0]) <= CLOSE * max(abs(one[0]), abs(other[0]))


def _folds(
    anew: bool = False,
    parts: tuple[tuple[list[int], list[int]], ...] = (([3, 4, 5, 6], [1, 2]), ([1, 2, 5, 6], [3, 4])),
) -> list[Window]:
    mini = Mini({"model.weight": {}})
    windows = []
    norm = 1.0
    for fold, pair in enumerate(parts):
        names = (f"loader{2 * fold}", f"loader{2 * fold + 1}")
        made = [
            (f"loader.new {name}", {"args": {"base": 0, "part": part, "of": 8}})
            for name, part in zip(names, pair, strict=True)
        ]
        norm = 7.0 if anew and fold else norm
        for number in range(3):
            rows: list[Any] = [
                *(made if not number else ()),
                (f"fetch {names[0]}", {"args": {"epoch": 0, "fetch": number}}),
                ("batch", {"loader": names[0], "fetch": number}),
                *("forward model", "backward"),
                ("before", {"model.weight": norm}, {"optimizer": 0}),
                "step optimizer0:SGD",
                ("after", {"model.weight": norm + 0.1}, {"optimizer": 0}),
            ]
            norm += 0.1
            windows.append(mini.window(*rows))
        evaluated = (f"fetch {names[1]}", {"args": {"epoch": 0, "fetch": 0}})
        held = ("batch", {"loader": names[1], "fetch": 0})
        windows.append(mini.window(evaluated, held, ("forward model", {"context": "nograd"})))
    return windows
