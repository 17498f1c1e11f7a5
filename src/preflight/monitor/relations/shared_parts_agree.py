"""What all ranks of a divided model hold gets the same gradients on all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import EXCHANGING, SENDING, apart, group_of, parameters, unplaced, uses
from preflight.monitor.window import Window
from preflight.vocabulary.counted import counted

_FAR = {"float32": 1e-3, "float64": 1e-3}
_FAR_ROUNDED = 0.02
_SAME = 1e-5
_NEAR = 0.05
"""What losses may lie apart in later steps, when the ranks have drifted: as a share of one of them."""
_IN_A_ROW = 2


class SharedPartsAgree(Relation):
    """Where ranks compute one loss together, parameters that all of them hold get the same gradients.

    In tensor parallelism each rank has its part of some layers, and all have the whole of the others: the embedding, the
    normalisations. What goes into a divided layer is the same on all ranks, and its gradient is the sum of what their
    parts give. Where this sum is left out, each rank follows its own share of the gradient; the loss is printed alike
    and falls, and the ranks drift apart.
    Judged are ranks with the same inputs and the same first loss that add something up within their forward pass, some of
    whose parameters began differently. Those that began with the same random numbers are held by all; it is broken where
    the norms of their gradients, as the step takes them, lie further apart in two steps in a row than rounding explains.
    Ranks that send to each other (pipelines) or exchange tokens (experts) are not judged.
    """

    name = "shared-parts-agree"
    across = True
    needs = frozenset({"step", "state", "forward", "scalar", "collective"})
    priority = 14
    cause = "the all-reduce in the backward pass of what goes into a divided layer is missing"
    advice = (
        "sum the gradient of the input of column-parallel layers over the ranks, as the forward pass sums the output"
    )

    def __init__(self) -> None:
        self._started: dict[tuple[int, ...], tuple[dict[str, str], bool]] = {}
        self._alike: dict[tuple[int, ...], bool] = {}
        self._apart: dict[tuple[int, ...], int] = {}
        self._over = False

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._over = self._over or uses(windows.values(), SENDING | EXCHANGING)
        if self._over or not all(window.named("step") for window in windows.values()):
            return
        for group in {group for window in windows.values() for group in _summing(window)}:
            present = {rank: windows[rank] for rank in group if rank in windows}
            if len(present) == len(group) > 1:
                yield from self._judge(group, present)

    def _judge(self, group: tuple[int, ...], windows: Mapping[int, Window]) -> Iterator[Example]:
        shared, divided = self._begun(group, windows)
        if not any(one.name == "loss" for one in windows[group[0]].numbers):
            return
        near = _NEAR if self._alike.get(group) else _SAME
        self._alike[group] = self._alike.get(group, True) and _one_loss(windows, near)
        if not shared or not divided or apart(windows) is not False or not self._alike[group]:
            self._apart[group] = 0
            return
        told = [_gradients(window) for window in windows.values()]
        judged = [name for name in sorted(shared) if all(name in one for one in told)]
        wrong = [name for name in judged if _differ([one[name] for one in told], shared[name])]
        if not judged:
            return
        times = self._apart[group] = self._apart.get(group, 0) + 1 if wrong else 0
        ranks = ", ".join(map(str, group))
        broken = times >= _IN_A_ROW
        yield Example(
            (),
            not broken,
            {"ranks": list(group)},
            variables=tuple(wrong) if broken else (),
            expected=f"the same gradients on ranks {ranks}",
            seen=f"other gradients of {len(wrong)} of {counted(len(judged), 'parameter')}" if broken else None,
            call=windows[group[0]].named("step")[-1],
            detail=f"Ranks {ranks} compute one loss together and follow different gradients of what all of them hold"
            if broken
            else "",
        )

    def _begun(self, group: tuple[int, ...], windows: Mapping[int, Window]) -> tuple[dict[str, str], bool]:
        """The dtypes of parameters with the same random numbers on all ranks before the first step, by name.

        Also whether others had different numbers.
        """
        if group not in self._started:
            told = [parameters(window) for window in windows.values()]
            first = next(iter(windows.values()))
            owned = {name: one for name, one in unplaced(first).items() if one.trainable and len(one.shape) > 1}
            known = [name for name in owned if all(name in one for one in told)]
            if not known:
                return {}, False
            equal = {name for name in known if len({one[name][0] for one in told}) == 1}
            random = {name: owned[name].dtype for name in equal if _random(first, name, owned[name].numel)}
            self._started[group] = random, len(equal) < len(known)
        return self._started[group]

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([(0.5, 0.5)] * 3)
        yield _run([(0.5, 0.4), (0.5, 0.5), (0.5, 0.4)])
        yield _run([(0.5, 0.5)] * 2) + _run([(0.5, 0.4)] * 3, losses=(1.0, 2.0))  # each has a loss of its own

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([(0.5, 0.4)] * 3)


def _summing(window: Window) -> set[tuple[int, ...]]:
    """Groups that add up tensors within forward passes that train."""
    passes = [call for call in window.named("forward") if call.context.startswith("grad")]
    return {
        group_of(call, window)
        for call in window.named("collective.all_reduce")
        if len((call.args or {}).get("shape") or ()) > 1 and any(one.q < call.q < one.e for one in passes)
    }


def _one_loss(windows: Mapping[int, Window], near: float) -> bool:
    """Whether the losses of an iteration are the same on all ranks, or so near."""
    told = [[one.value for one in window.numbers if one.name == "loss"] for window in windows.values()]
    first = told[0]
    return all(
        len(one) == len(first)
        and all(
            a is not None and b is not None and abs(a - b) <= near * abs(a) for a, b in zip(one, first, strict=True)
        )
        for one in told
    )


def _random(window: Window, name: str, numel: int) -> bool:
    """Whether a matrix holds other numbers than zeros or ones before the step, as far as its norm tells."""
    for state in window.state("before_step", "parameter"):
        for ident, norm in zip(state.ids, state.norm, strict=True):
            if norm is not None and window.run.name(ident) == name:
                return bool(norm > 0 and abs(norm * norm - numel) > 1e-3 * numel)
    return False


def _gradients(window: Window) -> dict[str, float]:
    """Norms of the gradients that the first step takes, by name."""
    found: dict[str, float] = {}
    for state in window.state("before_step", "gradient"):
        for ident, norm in zip(state.ids, state.norm, strict=True):
            if norm is not None:
                found.setdefault(window.run.name(ident), norm)
    return found


def _differ(norms: list[float], dtype: str) -> bool:
    return max(norms) - min(norms) > _FAR.get(dtype, _FAR_ROUNDED) * max(norms)


def _run(steps: list[tuple[float, float]], losses: tuple[float, float] = (1.0, 1.0)) -> list[Window]:
    """Two ranks with an embedding each, and their parts of a layer; of each step the norms of the embedding's gradient."""
    about = {"shape": (8, 4), "numel": 32}
    minis = [Mini({"model.embed.weight": about, "model.up.weight": about}, rank, 2) for rank in (0, 1)]
    found = []
    for norms in steps:
        for rank, mini in enumerate(minis):
            both: dict[str, Any] = {"model.embed.weight": (3.0, 7), "model.up.weight": (3.0 + rank, 8 + rank)}
            found.append(
                mini.window(
                    ("batch", {"loader": "forward:model", "bits": [1], "shapes": [[4, 8]]}),
                    (
                        "forward model",
                        {"inside": (("collective.all_reduce", {"args": {"group": 0, "shape": [4, 8]}}),)},
                    ),
                    "backward",
                    ("loss", losses[rank]),
                    ("gradients", {"model.embed.weight": norms[rank], "model.up.weight": 0.2 + rank}),
                    ("before", both),
                    "step optimizer0:SGD",
                )
            )
    return found
