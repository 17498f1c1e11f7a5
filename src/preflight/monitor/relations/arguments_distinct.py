"""Calls that should differ are made with different arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_REMEMBERED = 64
_ARGUMENTS = {"seed": "seed", "epoch": "epoch"}


class ArgumentsDistinct(Relation):
    """A seed, the number of an epoch or a batch is not given twice within a while.

    Compared with the last 64 of the same kind. Of batches the fingerprints are compared, loader by loader, and only
    within one epoch.
    """

    name = "arguments-distinct"
    fields = ("call", "object")
    needs = frozenset({"seed", "epoch", "batch"})
    wakes = frozenset({"batch", *_ARGUMENTS})
    severity = "warning"
    priority = 46
    learns = True
    cause = "a counter stands still, or the same seed or batch is used again"
    advice = "look at what the argument is computed from"

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], deque[Any]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        for name, argument in _ARGUMENTS.items():
            for call in window.named(name):
                told = call.args or {}
                value = told.get(argument)
                if isinstance(value, int) and told.get("user", True):
                    again = self._again((name, call.object), value)
                    yield Example(
                        (name, call.object),
                        not again,
                        {},
                        variables=(name,),
                        expected=f"another {argument} than before",
                        seen=value if again else None,
                        call=call,
                    )
        for batch in window.batches:
            if batch.loader.startswith("forward:") or not batch.bits or None in batch.bits:
                continue
            again = self._again(("batch", batch.loader), (batch.epoch, *batch.bits))
            yield Example(
                ("batch", batch.loader),
                not again,
                {},
                variables=(batch.loader,),
                expected="a batch other than those before it in the epoch",
                seen="the same batch" if again else None,
            )

    def _again(self, key: tuple[str, str], value: Any) -> bool:
        held = self._seen.setdefault(key, deque(maxlen=_REMEMBERED))
        again = value in held
        held.append(value)
        return again

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        if subject.get("call") == "batch":
            return f"{subject.get('object')} does not give the same batch twice in an epoch"
        return (
            f"No {subject.get('call')} is given twice{' to ' + str(subject['object']) if subject.get('object') else ''}"
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(list(range(8)))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([*range(8), 7])


def _run(epochs: list[int]) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window(("epoch DistributedSampler", {"args": {"epoch": epoch}})) for epoch in epochs]
