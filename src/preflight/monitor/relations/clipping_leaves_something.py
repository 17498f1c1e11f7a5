"""Clipping leaves something of the gradients."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window

_TINY = 1e-5
"""A limit that nobody chooses: what is left of each gradient is near the number that Adam adds to its divisor."""
_SHARE = 1e-4
_ROW = 5
_OF_SIGNS = ("rprop", "lion", "sign", "muon")
"""In the names of optimizers that take only the signs of gradients, or their direction: for these a scale is nothing."""


class ClippingLeavesSomething(Relation):
    """Of gradients that are clipped by their norm, more than a ten-thousandth is left now and then.

    Judged where the limit is a hundred-thousandth or less: five clippings in a row, of one place, that leave less than a
    ten-thousandth of what there was turn a loss into next to nothing. A greater limit is a choice, and a tiny one of
    gradients that are as small, or of a single one that exploded, does no harm;
    nor does any before an optimizer that takes only the signs of gradients, or their direction.
    A limit of zero or below it is told by `clipping-limit-positive`.
    """

    name = "clipping-leaves-something"
    needs = frozenset({"clip_grad_norm", "scalar", "step"})
    wakes = frozenset({"clip_grad_norm"})
    repeats = _ROW
    looks = frozenset({"clip_grad_norm"})
    whole = False
    severity = "warning"
    priority = 24
    cause = "the limit has too many zeros, or was meant for something else, as an epsilon or a tolerance"
    advice = "print the norm that clip_grad_norm_ returns beside the limit"

    def __init__(self) -> None:
        self._row: dict[str, int] = {}

    def quiet(self, window: Window) -> bool:
        """Whether no limit is as small."""
        return not any(_is_tiny((call.args or {}).get("max_norm")) for call in window.named("clip_grad_norm"))

    def see(self, window: Window) -> Iterator[Example]:
        norms = [one for one in window.numbers if one.name == "grad_norm" and one.value is not None]
        of_signs = any(word in step.object.lower() for step in window.named("step") for word in _OF_SIGNS)
        for call in window.named("clip_grad_norm"):
            limit, place = (call.args or {}).get("max_norm"), call.place or ""
            if not _is_tiny(limit) or call.error or of_signs:
                yield Example((), True, {})
                continue
            norm = next((one.value for one in norms if one.q > call.q), None)
            if limit is None or norm is None:
                continue
            self._row[place] = row = self._row.get(place, 0) + 1 if norm * _SHARE > limit else 0
            wrong = row >= _ROW
            yield Example(
                (),
                not wrong,
                {},
                variables=("clip_grad_norm_",) if wrong else (),
                expected="a limit that is near the norm of the gradients",
                seen=f"a limit of {limit:g}, and a norm of {norm:.3g}" if wrong else None,
                call=call,
                detail=f"Clipping to {limit:g} leaves next to nothing of gradients whose norm is {norm:.3g}"
                if wrong
                else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(1.0, [1e6] * 8)
        yield _run(1e-6, [1e-5] * 8)
        yield _run(1e-6, [*[2.0] * 4, 1e-3, *[2.0] * 4])
        yield _run(1e-6, [2.0] * 8, "Rprop")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(1e-6, [2.0] * 5)


def _is_tiny(limit: float | None) -> bool:
    return limit is not None and 0 < limit <= _TINY


def _run(limit: float, norms: list[float], optimizer: str = "SGD") -> list[Window]:
    mini = Mini({"model.weight": {}})
    clip = ("clip_grad_norm", {"args": {"max_norm": limit, "norm_type": 2.0}, "place": "train.py:9"})
    told = (("scalar", "grad_norm", "train.py:9", norm) for norm in norms)
    return [mini.window("backward", clip, one, f"step optimizer0:{optimizer}") for one in told]
