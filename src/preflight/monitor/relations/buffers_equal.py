"""Buffers of replicas are equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Variable, Window
from preflight.vocabulary.counted import counted


class BuffersEqual(Relation):
    """A buffer that the wrapper does not keep equal is the same on all ranks by itself.

    DDP sends the buffers that it was given from the first rank to the others before each forward pass; what a forward
    pass then makes of them may differ until the next one, and is not judged.
    Judged are buffers that never change (tables, frequencies, masks), and buffers that are other tensors than those
    DDP was given although it is meant to send them.
    The running statistics of batch normalisation without synchronisation are each rank's own.
    """

    name = "buffers-equal"
    across = True
    needs = frozenset({"step", "state"})
    priority = 14
    cause = "a buffer is drawn at random on each rank and not sent around, or is assigned anew so that DDP loses sight of it"
    advice = "change buffers in place (copy_, mul_), and make them alike on all ranks or leave broadcast_buffers on"

    def __init__(self) -> None:
        self._first: dict[tuple[int, str], int] = {}
        self._moved: set[str] = set()
        self._sends: dict[str, bool] = {}

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        for window in windows.values():
            for call in window.named("wrap.ddp"):
                self._sends[call.object] = bool((call.result or {}).get("buffers"))
        told = {rank: _buffers(window) for rank, window in windows.items()}
        for rank, held in told.items():
            for name, (_, bits) in held.items():
                if self._first.setdefault((rank, name), bits) != bits:
                    self._moved.add(name)
        groups: dict[tuple[int, ...], list[str]] = {}
        for name, (variable, _) in next(iter(told.values())).items():
            if self._judged(variable):
                groups.setdefault(tuple((variable.spread or {})["ranks"]), []).append(name)
        for group, names in groups.items():
            present = {rank: told[rank] for rank in group if rank in told}
            if len(present) == len(group):
                yield self._compare(group, names, present, windows[group[0]])

    def _judged(self, variable: Variable) -> bool:
        spread = variable.spread or {}
        if spread.get("kind") != "replicated" or len(spread.get("ranks", ())) < 2 or "synced" not in spread:
            return False
        if "BatchNorm" in variable.module and "Sync" not in variable.module:
            return False
        lost = any(self._sends.values()) and not spread["synced"]
        return lost or variable.name not in self._moved

    @staticmethod
    def _compare(
        group: tuple[int, ...], names: list[str], told: Mapping[int, Mapping[str, tuple[Variable, int]]], first: Window
    ) -> Example:
        wrong = [name for name in names if len({held[name][1] if name in held else None for held in told.values()}) > 1]
        steps = first.named("step")
        return Example(
            (),
            not wrong,
            {"ranks": list(group)},
            variables=tuple(wrong),
            expected="the same values on ranks " + ", ".join(map(str, group)),
            seen=f"other values in {len(wrong)} of {counted(len(names), 'buffer')}" if wrong else None,
            call=steps[-1] if steps else None,
            detail="Replicas hold different values of a buffer that nothing makes equal again" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _replicas((5, 5), synced=True)
        yield _replicas((5, 5), synced=True) + _replicas((6, 6), synced=False)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _replicas((5, 6), synced=False)
        yield _replicas((5, 6), synced=False, sends=False)


def _buffers(window: Window) -> dict[str, tuple[Variable, int]]:
    found: dict[str, tuple[Variable, int]] = {}
    for state in window.state("after_step", "buffer", exact=True):
        for ident, bits in zip(state.ids, state.bits or (), strict=True):
            variable = window.run.variables.get(ident)
            if variable is not None and bits is not None:
                found[variable.name] = variable, bits
    return found


def _replicas(bits: tuple[int, int], synced: bool, sends: bool = True) -> list[Window]:
    windows = []
    for rank, value in enumerate(bits):
        spread = {"kind": "replicated", "ranks": [0, 1], "synced": synced}
        mini = Mini({"model.table": {"kind": "buffer", "spread": spread, "optimizer": -1}}, rank, 2)
        wrap = ("wrap.ddp model", {"result": {"ranks": [0, 1], "buffers": sends}})
        windows.append(mini.window(wrap, "step optimizer0:SGD", ("buffers", {"model.table": (1.0, value)})))
    return windows
