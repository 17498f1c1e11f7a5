"""Ranks that share the data exchange what they learn from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.views.ranks import Silence, Together, apart
from preflight.monitor.window import Call, Window
from preflight.vocabulary.counted import counted

_SOON, _LATE = 3, 32
"""Steps of a training that is over which are too many without any exchange: where the data is dealt out and no weights were
ever sent, and elsewhere."""
_LONG = 10_000
"""And of one that goes on: nobody who averages weights now and then waits for so long."""


class RanksExchange(Relation):
    """Ranks that begin with the same weights and train on parts of the data do not drift apart without a word.

    A model that was never wrapped, or whose own averaging is never called, trains on every rank for itself: each sees its
    part of the data, and what rank 0 saves has seen no more than that.
    Judged are runs of several ranks in which no wrapper was made and no collective moved a good part of the weights.
    The weights must have been equal before the first step, and all of them differ now, on different inputs.

    Programs that average their weights every so many steps (local SGD) look the same until they do so, and may do it after
    hundreds of steps: what they lack is told when all ranks have ended by themselves, or after ten thousand steps. At the
    end a few steps are enough where a distributed sampler deals out the data and nothing of the weights' size was ever
    sent, elsewhere there must be many.
    Ranks that form no group and share no sampler are programs of their own, as in a search over settings.
    """

    name = "ranks-exchange"
    across = True
    whole = False  # the end lies in an iteration that was cut short, and so may the only exchange
    needs = frozenset({"step", "state", "forward", "batch"})
    priority = 4
    cause = (
        "the model is not wrapped in DistributedDataParallel, or the function that averages gradients is never called"
    )
    advice = (
        "wrap the model (DistributedDataParallel, fully_shard), or all-reduce the gradients between backward and step"
    )

    def __init__(self) -> None:
        self._together = Together()
        self._silence = Silence()
        self._dealt = self._fed_apart = False
        self._call: Call | None = None  # the last step of the first rank

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._together.see(windows)
        self._silence.see(windows)
        stepped = all(window.named("step") for window in windows.values())
        if stepped:
            self._dealt = self._dealt or _dealt_out(windows)
            self._fed_apart = self._fed_apart or bool(apart(windows))
            self._call = next(iter(windows.values())).named("step")[-1]
        first = next(iter(windows.values()))
        over = len(windows) == first.run.world and all(map(_ended, windows.values()))
        if not stepped and not over:
            return
        judged = self._fed_apart and (self._dealt or 0 in first.run.groups)
        exchange = self._together.groups or self._together.alone or not self._silence.whole
        enough = _LONG if not over else _SOON if self._dealt and not self._silence.handed_out else _LATE
        wrong = judged and not exchange and self._silence.steps >= enough and self._silence.all_apart
        yield _example(self._call, sorted(windows), self._silence if wrong else None)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _trained([(7, 8), (7, 8)], 5, exchange=True)
        yield _trained([(7, 8), (6, 9)], 5)  # their weights were never the same
        yield _trained([(7, 8), (7, 9)], 5, sampler=False)  # perhaps averaged later
        yield _trained([(7, 8), (7, 9)], 40, how=None)  # and so may this one be, which goes on
        yield _trained([(7, 8), (7, 9)], 40, how="signal")
        yield _trained([(7, 8), (7, 9)], 5, averaged=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trained([(7, 8), (7, 9)], 5)
        yield _trained([(7, 8), (7, 9)], 34, sampler=False)


def _ended(window: Window) -> bool:
    """Whether the program of a rank ended by itself."""
    return any(note.get("how") == "exit" for note in window.notes.get("end", ()))


def _dealt_out(windows: Mapping[int, Window]) -> bool:
    """Whether a distributed sampler gives each rank its part of the data that is trained on."""
    for window in windows.values():
        for fetch in fetches_of(window):
            replicas = fetch.facts.get("replicas")
            if fetch.trained and "distributed" in fetch.order and replicas and replicas[1] > 1:
                return True
    return False


def _example(step: Call | None, ranks: list[int], silence: Silence | None) -> Example:
    """What is said of an iteration; ``silence`` is given where ranks drift apart."""
    context = {"ranks": ranks}
    if silence is None:
        return Example((), True, context, call=step)
    told, count = ", ".join(map(str, ranks)), len(silence.apart)
    return Example(
        (),
        False,
        context,
        variables=tuple(sorted(silence.apart)),
        expected="gradients or weights exchanged between the ranks",
        seen=f"{counted(silence.steps, 'step')} without an exchange; {counted(count, 'parameter that was equal differs', 'parameters that were equal differ')}",
        call=step,
        detail=f"Ranks {told} train for themselves: nothing of what they learn is exchanged",
    )


def _trained(
    values: list[tuple[int, int]],
    steps: int,
    sampler: bool = True,
    exchange: bool = False,
    averaged: bool = False,
    how: str | None = "exit",
) -> list[Window]:
    """Steps of two ranks that exchange gradients in each step, average their weights after the last one, or do neither."""
    facts = {"order": "distributed", "replicas": [0, 2], "samples": 64, "batch_size": 4}
    sync: list[Any] = [("collective.all_reduce", {"args": {"shape": [32], "group": 0}})]
    found = []
    for rank, (before, after) in enumerate(values):
        mini = Mini({"model.weight": {}, "model.bias": {}}, rank, 2)
        mini.run.groups[0] = [0, 1]
        for number in range(steps):
            held = before if not number else after + number
            batch = ("batch", {"loader": "loader0", "bits": [10 * number + rank], "shapes": [[4, 8]]})
            given = ("batch", {"loader": "forward:model", "bits": [10 * number + rank], "shapes": [[4, 8]]})
            new = [("loader.new loader0", {"args": facts})] if sampler and not number else []
            found.append(
                mini.window(
                    *new,
                    *([batch] if sampler else []),
                    given,
                    "forward model",
                    "backward",
                    *(sync if exchange else []),
                    ("before", {"model.weight": (1.0, held), "model.bias": (1.0, held)}),
                    "step optimizer0:SGD",
                    ("after", {"model.weight": (1.0, after + number + 1), "model.bias": (1.0, after + number + 1)}),
                )
            )
        if how:
            last = (*(sync if averaged else []), ("note", "end", {"how": how}))
            found.append(mini.window(*last, complete=False))
    return found
