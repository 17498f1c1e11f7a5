"""Ranks call the same collectives with the same shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import group_of
from preflight.monitor.window import Call, Window

_SHAPED = frozenset(
    {"all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"}
)
_NAMED = frozenset({"all_gather", "reduce_scatter", "all_to_all", "barrier", "gather", "scatter"})


class CollectivesMatch(Relation):
    """All ranks of a group call the same collectives in the same order, on tensors of the same shape and dtype.

    The calls of each group are compared one by one from the beginning of the run, wherever an iteration ends.
    Shapes count for operations that demand equal ones; an exchange with sizes given for each rank may be uneven.
    Messages from rank to rank and collectives within others are left out.
    Once ranks are out of step nothing more is said of their group.
    """

    name = "collectives-match"
    across = True
    needs = frozenset({f"collective.{word}" for word in _SHAPED | _NAMED})
    priority = 10
    cause = (
        "ranks take different branches, or cut their buffers by sizes of their own; equal numbers of elements hide it"
    )
    advice = "compute sizes from what all ranks know, or exchange them first, and give them to the collective"

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, ...], dict[int, list[tuple[tuple[Any, ...], Call]]]] = {}
        self._lost: set[tuple[int, ...]] = set()

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        for rank, window in windows.items():
            known = {call.q for call in window.calls if call.name.startswith("collective.")}
            for call in window.calls:
                if call.q not in known or call.parent in known:
                    continue
                what = _signature(call)
                group = group_of(call, window)
                if what is not None and rank in group and len(group) > 1 and group not in self._lost:
                    lanes = self._waiting.setdefault(group, {one: [] for one in group})
                    lanes[rank].append((what, call))
        for group in [one for one in self._waiting if one not in self._lost]:
            yield from self._compare(group, self._waiting[group])

    def _compare(
        self, group: tuple[int, ...], lanes: Mapping[int, list[tuple[tuple[Any, ...], Call]]]
    ) -> Iterator[Example]:
        length = min(len(lane) for lane in lanes.values())
        for position in range(length):
            row = {rank: lane[position] for rank, lane in lanes.items()}
            words = {rank: what for rank, (what, _) in row.items()}
            if len(set(words.values())) == 1:
                continue
            self._lost.add(group)
            call = next(iter(row.values()))[1]
            yield Example(
                (),
                False,
                {"operation": call.name, "ranks": list(group)},
                variables=(call.name.removeprefix("collective."),),
                expected="the same operation, shape and dtype on all ranks",
                seen="; ".join(f"rank {rank}: {_said(what)}" for rank, what in words.items()),
                call=call,
                detail="Ranks give different tensors to the same collective",
            )
            return
        if length:
            call = next(iter(lanes.values()))[length - 1][1]
            for lane in lanes.values():
                del lane[:length]
            yield Example((), True, {"operation": call.name, "ranks": list(group)}, call=call)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _called(("all_reduce", [4], {}), ("all_reduce", [4], {}))
        yield _called(("all_to_all_single", [4, 2], {"splits": True}), ("all_to_all_single", [3, 2], {"splits": True}))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _called(("all_to_all_single", [4, 2], {}), ("all_to_all_single", [2, 4], {}))
        yield _called(("all_reduce", [4], {}), ("broadcast", [4], {}))


def _signature(call: Call) -> tuple[Any, ...] | None:
    """What must be the same on all ranks; None for what is not compared."""
    word, args = call.name.removeprefix("collective."), call.args or {}
    if call.error is not None:
        return None
    if word in _SHAPED and not args.get("splits"):
        return word, tuple(args.get("shape") or ()), args.get("dtype"), args.get("op")
    return (word,) if word in _SHAPED or word in _NAMED else None


def _said(what: tuple[Any, ...]) -> str:
    return what[0] if len(what) == 1 else f"{what[0]} of {list(what[1])} {what[2] or ''}".rstrip()


def _called(*ranks: tuple[str, list[int], dict[str, Any]]) -> list[Window]:
    return [
        Mini({}, rank, len(ranks)).window((f"collective.{word}", {"args": {"shape": shape, "group": 0, **more}}))
        for rank, (word, shape, more) in enumerate(ranks)
    ]
