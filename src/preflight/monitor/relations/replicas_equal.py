"""Replicas are equal."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_CLOSE = 1e-5


class ReplicasEqual(Relation):
    """Parameters that several ranks are meant to hold equally are equal on all of them after every step.

    Which ranks these are is told by the wrapper (DDP) or by the placement of a distributed tensor.
    Fingerprints are compared where all ranks took them in the same step; norms otherwise, which must agree to five digits.
    Where a communication hook lets ranks step on their own and averages their weights now and then, nothing is judged.
    """

    name = "replicas-equal"
    across = True
    needs = frozenset({"step", "state"})
    priority = 15
    cause = (
        "gradients are not averaged over the ranks: the wrapped module is bypassed, its hooks were lost, no_sync was left on, "
        "or ranks clip, skip or update differently"
    )
    advice = "call the wrapper (not the module inside it), and compare parameters over ranks right after it is made"

    def __init__(self) -> None:
        self._averages_weights = False

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        first = next(iter(windows.values()))
        hooks = [str((call.args or {}).get("hook", "")) for call in first.named("comm_hook")]
        self._averages_weights = self._averages_weights or any("localSGD" in hook for hook in hooks)
        if self._averages_weights:
            return
        groups: dict[tuple[int, ...], list[str]] = {}
        for variable in first.run.variables.values():
            spread = variable.spread
            if spread and spread["kind"] != "partial" and len(spread.get("ranks", ())) > 1:
                groups.setdefault(tuple(spread["ranks"]), []).append(variable.name)
        for ranks in groups:
            present = [rank for rank in ranks if rank in windows]
            if len(present) > 1:
                yield from self._compare({rank: windows[rank] for rank in present}, ranks)

    @staticmethod
    def _compare(windows: dict[int, Window], group: tuple[int, ...]) -> Iterator[Example]:
        told = {rank: _held(window, group) for rank, window in windows.items()}
        names = set.intersection(*(set(one) for one in told.values())) if told else set()
        if not names:
            return
        exact = all(one[name][1] is not None for one in told.values() for name in names)
        wrong, apart = [], set()
        reference = told[next(iter(told))]
        for name in sorted(names):
            for rank, one in told.items():
                if _differ(reference[name], one[name]):
                    wrong.append(name)
                    apart.add(rank)
                    break
        first = next(iter(windows.values()))
        steps = first.named("step")
        yield Example(
            (),
            not wrong,
            {"level": "exact" if exact else "norm", "ranks": sorted(windows)},
            variables=tuple(wrong),
            expected="the same values on ranks " + ", ".join(map(str, group)),
            seen=f"other values in {len(wrong)} of {counted(len(names), 'parameter')} on {'rank' if len(apart) == 1 else 'ranks'} "
            f"{', '.join(map(str, sorted(apart)))}"
            if wrong
            else None,
            call=steps[-1] if steps else None,
            detail="Ranks that should hold the same parameters hold different ones" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _two_ranks((1.0, 7), (1.0, 7))
        yield _two_ranks((1.0, None), (1.0 + 1e-9, None))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _two_ranks((1.0, 7), (1.0, 8))
        yield _two_ranks((1.0, None), (1.1, None))


def _two_ranks(*values: tuple[float, int | None]) -> list[Window]:
    spread = {"kind": "replicated", "ranks": [0, 1]}
    ranks = [Mini({"model.weight": {"spread": spread}}, rank, 2) for rank in (0, 1)]
    return [
        mini.window("step optimizer0:SGD", ("after", {"model.weight": value}))
        for mini, value in zip(ranks, values, strict=True)
    ]


def _held(window: Window, group: tuple[int, ...]) -> dict[str, tuple[float | None, int | None]]:
    """Norm and fingerprint after the last step, by name, of the variables that a group holds equally."""
    found: dict[str, tuple[float | None, int | None]] = {}
    for state in window.states:
        if state.moment != "after_step" or state.what != "parameter":
            continue
        for position, ident in enumerate(state.ids):
            variable = window.run.variables.get(ident)
            if variable is None or not variable.spread or tuple(variable.spread.get("ranks", ())) != group:
                continue
            found[variable.name] = (state.norm[position], state.bits[position] if state.bits else None)
    return found


def _differ(one: tuple[float | None, int | None], other: tuple[float | None, int | None]) -> bool:
    if one[1] is not None and other[1] is not None:
        return one[1] != other[1]
    if one[0] is None or other[0] is None:
        return (one[0] is None) != (other[0] is None)
    if one[0] != one[0] or other[0] != other[0]:
        return (one[0] != one[0]) != (other[0] != other[0])
    return abs(one[0] - other[0]) > _CLOSE * max(abs(one[0]), abs(other[0]))
