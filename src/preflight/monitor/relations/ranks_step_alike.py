"""Replicas take the same steps with the same settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.ranks import Together
from preflight.monitor.window import Window

_CALLS = ("step", "scheduler.step", "clip_grad_norm", "clip_grad_value", "scaler.step")
_SETTINGS = ("lr", "momentum", "weight_decay", "scale")


class RanksStepAlike(Relation):
    """In an iteration, ranks that train one model clip, step and advance their schedules equally often.

    Which ranks these are is told by a wrapper, or seen where a program exchanges its gradients itself.
    A step that a loss scaler skips is none, so that ranks skip together.
    The settings of their optimizers (rate, momentum, weight decay) and the scale of the loss are the same too, where both
    ranks told them.
    What a single rank does besides, such as evaluating, logging and saving, is left out; so is an iteration that a rank
    does not have because its data ended earlier.
    """

    name = "ranks-step-alike"
    across = True
    needs = frozenset({"step", "scheduler.step", "clip_grad_norm", "scalar"})
    priority = 11
    cause = "a step, a clipping or a schedule stands behind a condition that is true on some ranks only, such as an overflow"
    advice = "do on every rank whatever changes gradients, weights or rates, and decide it by what all ranks see"

    def __init__(self) -> None:
        self._together = Together()

    def see_ranks(self, windows: dict[int, Window]) -> Iterator[Example]:
        self._together.see(windows)
        for group in sorted(self._together.groups):
            present = {rank: windows[rank] for rank in group if rank in windows}
            if len(present) < 2 or not all(window.named("backward") for window in present.values()):
                continue
            told = {rank: _told(window) for rank, window in present.items()}
            wrong = _apart(told)
            first = next(iter(present.values()))
            calls = first.named("step")
            yield Example(
                (),
                not wrong,
                {"ranks": sorted(present)},
                variables=tuple(sorted(wrong)),
                expected="the same on all ranks",
                seen="; ".join(
                    f"{name}: " + ", ".join(f"{held.get(name, 0)} on rank {rank}" for rank, held in told.items())
                    for name in sorted(wrong)
                )
                or None,
                call=calls[-1] if calls else None,
                detail="Replicas do not take the same steps" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _stepped(("step optimizer0:SGD",), ("step optimizer0:SGD",))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _stepped(("clip_grad_norm", "step optimizer0:SGD"), ("step optimizer0:SGD",))
        yield _stepped((("scalar", "lr", "optimizer0:SGD.0", 0.1),), (("scalar", "lr", "optimizer0:SGD.0", 0.2),))
        scaled = ("scaler.step optimizer0:SGD", {"inside": ["step optimizer0:SGD"]})
        yield _stepped((scaled,), ("scaler.step optimizer0:SGD",))


def _told(window: Window) -> dict[str, Any]:
    """How often each of the calls came, and the settings, in an iteration."""
    found: dict[str, Any] = {}
    inside = {call.q for name in _CALLS if name != "scaler.step" for call in window.named(name)}
    for name in _CALLS:
        for call in window.named(name):
            if call.parent not in inside:
                found[call.line] = found.get(call.line, 0) + 1
    for number in window.numbers:
        if number.name in _SETTINGS:
            subject = "the loss" if number.name == "scale" else number.object
            found[f"{number.name} of {subject}"] = number.value
    return found


def _apart(told: Mapping[int, Mapping[str, Any]]) -> set[str]:
    """What is not the same: calls that are missing count, settings only where all ranks told them."""
    names = {name for held in told.values() for name in held}
    wrong = set()
    for name in names:
        values = [held.get(name) for held in told.values()]
        if " of " in name and any(value is None for value in values):
            continue
        if any(value != values[0] for value in values[1:]):
            wrong.add(name)
    return wrong


def _stepped(*ranks: tuple[Any, ...]) -> list[Window]:
    wrap = ("wrap.ddp model", {"result": {"ranks": [0, 1]}})
    return [Mini({}, rank, 2).window(wrap, "backward", *rows) for rank, rows in enumerate(ranks)]
