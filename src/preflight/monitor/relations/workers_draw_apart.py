"""Loader workers draw different random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, Window


class WorkersDrawApart(Relation):
    """No two workers of a loader begin with the same state of a generator that they draw from.

    Each worker tells the states of the generators of PyTorch, NumPy and Python, and of those that the dataset or its
    module holds, as they are before its first sample, and which of them that sample moved.
    Only generators that were moved are compared: a worker that never draws from NumPy may have it in any state.
    """

    name = "workers-draw-apart"
    category = "data"
    needs = frozenset({"fetch"})
    wakes = frozenset({"worker"})
    priority = 6
    cause = (
        "worker_init_fn seeds every worker alike, or a generator made before the workers was copied into each of them"
    )
    advice = "seed from torch.initial_seed() or the worker's number in worker_init_fn, also generators of your own"

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[int, Call]]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("worker"):
            told = call.args or {}
            epoch, known = self._known.get(call.object, (-1, {}))
            if epoch != told["epoch"]:
                known = {}
                self._known[call.object] = told["epoch"], known
            used = set(told["used"])
            others = [(number, used & set((one.args or {})["used"])) for number, one in known.items()]
            alike = {
                number: sorted(word for word in both if (known[number].args or {})[word] == told[word])
                for number, both in others
            }
            shared = sorted({word for words in alike.values() for word in words})
            known[told["worker"]] = call
            if not any(both for _, both in others):
                continue
            workers = sorted([number for number, words in alike.items() if words] + [told["worker"]])
            yield Example(
                (),
                not shared,
                {"sources": ",".join(sorted(used))},
                variables=(call.object,) if shared else (),
                expected="a state of its own for each worker",
                seen=f"workers {', '.join(map(str, workers))} share the state of {', '.join(map(_word, shared))}"
                if shared
                else None,
                call=call,
                detail=f"Workers of {call.object} draw the same random numbers" if shared else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield [Mini().window(*_workers((11, ["numpy"]), (12, ["numpy"])))]
        yield [Mini().window(*_workers((11, ["numpy"]), (12, ["numpy"]), (11, [])))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield [Mini().window(*_workers((11, ["numpy"]), (11, ["numpy", "torch"])))]


def _word(source: str) -> str:
    return {"torch": "torch", "numpy": "NumPy", "python": "random", "own": "a generator of the dataset's"}[source]


def _workers(*states: tuple[int, list[str]]) -> list[Any]:
    return [
        (
            "worker loader0",
            {"args": {"epoch": 0, "worker": n, "torch": n, "numpy": state, "python": n, "own": 0, "used": used}},
        )
        for n, (state, used) in enumerate(states)
    ]
