"""The loss is not the same at every step."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Batch, Window
from preflight.vocabulary.counted import counted

_STEPS = 20
_AT_FIRST = 2
_HELD = Example((), True, {})
_EXACT = ("float32", "float64")
_SMALL_RATE = 1e-5
"""A rate at which the first steps may be lost in the rounding of a loss, as of a policy next to its reference."""
_BY_HEART = 1e-6
"""Eight times the distance from one to the next number of float32."""


class LossMoves(Relation):
    """The loss of one place in the code is not the same number for twenty steps in a row.

    A loss that does not change in its last bit, while an optimizer steps at a rate above zero, does not depend on the
    weights that are trained: they are not the ones that the model uses, or something in between is saturated.
    A loss that was this number from its first step on is reported after two, where it is no number of low precision
    and the inputs were others each time: such a loss compares something with itself. While the rate of an optimizer
    still rises from step to step, or is below a hundred-thousandth, it is not: small first steps may be lost in the
    rounding. Nor are steps counted that a scaler of losses skips.
    A loss of exactly zero is not judged: losses with a margin rest there. Nor is one below a millionth: what is learnt by
    heart has logarithms of probabilities next to one, of which float32 knows few.
    """

    name = "loss-moves"
    needs = frozenset({"backward", "step", "scalar", "batch"})
    wakes = frozenset({"step", "scalar lr", "scalar loss"})
    severity = "warning"
    priority = 40
    cause = "the loss does not depend on the weights that the optimizer changes, or its input is saturated or constant"
    advice = (
        "check that the model that is called is the one whose parameters the optimizer has, and look at the outputs"
    )

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}
        self._steps = 0
        self._stepped_at: dict[str, int] = {}
        self._rate = 1.0
        self._rates: dict[str, float] = {}
        self._rose_at = -_AT_FIRST  # the steps that had been done when a rate last rose, or a step was skipped
        self._scale = 0.0
        self._moved: set[str] = set()  # places whose loss was another number at some time, or might seem to rest
        self._batches: list[Batch] = []  # of the window before

    def _rests(self, place: str, count: int, stepped: int) -> bool:
        """Whether a loss has not moved, from its first step on, for longer than chance allows."""
        if place in self._moved or max(self._rates.values(), default=1.0) < _SMALL_RATE:
            return False
        return count >= _AT_FIRST and stepped - self._rose_at >= _AT_FIRST

    def _same_inputs(self, window: Window) -> bool:
        """Whether the inputs of a window may be those of the one before."""
        now = _inputs(window.batches)
        return not now or now == _inputs(self._batches)

    def see(self, window: Window) -> Iterator[Example]:
        steps = window.named("step")
        for number in window.numbers:
            if number.name not in ("loss", "lr", "scale"):
                continue
            stepped = self._steps + sum([call.q < number.q for call in steps])
            if number.name == "scale" and number.value is not None:
                # A fused optimizer is called for a step that a scaler skips, and the scale falls after it.
                if number.value < self._scale:
                    self._rose_at = stepped + 1
                self._scale = number.value
            if number.name == "lr" and number.value is not None:
                self._rate = number.value
                if number.value > self._rates.get(number.object, number.value):
                    self._rose_at = stepped
                self._rates[number.object] = number.value
            if number.name != "loss" or number.value is None or not _BY_HEART <= abs(number.value) < inf:
                continue
            before, count = self._last.get(number.object, (None, 0))
            moved = self._stepped_at.get(number.object) != stepped and self._rate > 0
            count = count + moved if number.value == before else 0
            if number.object not in self._moved and (
                (before is not None and number.value != before)
                or self._same_inputs(window)
                or _rough(window)
                or not window.complete
            ):
                self._moved.add(number.object)
            self._last[number.object] = number.value, count
            self._stepped_at[number.object] = stepped
            wrong = count >= _STEPS or self._rests(number.object, count, stepped)
            if not wrong:
                yield _HELD
                continue
            yield Example(
                (),
                False,
                {},
                variables=("loss",),
                expected="a loss that changes as the weights do",
                seen=f"{number.value:g} for {counted(count, 'step')}",
                call=steps[-1] if steps else None,
                detail=f"The loss has been exactly {number.value:g} for {counted(count, 'step')}",
            )
        self._steps += len(steps)
        self._batches = window.batches

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", ("loss", 1.0 / (n + 1)), "step optimizer0:SGD") for n in range(30)]

        for bits, kind in ((0, "float32"), (1, "bfloat16")):  # the same inputs each time, and few digits
            mini = Mini({"model.weight": {}})
            single = ("backward", {"args": {"dtype": kind}})
            rows = (single, ("loss", 0.7), "step optimizer0:SGD")
            yield [mini.window(("batch", {"bits": (bits * n,)}), *rows) for n in range(5)]

        mini = Mini({"model.weight": {}})  # learnt by heart
        single = ("backward", {"args": {"dtype": "float32"}})
        yield [mini.window(single, ("loss", 3.6e-7 if n else 0.5), "step optimizer0:SGD") for n in range(30)]

        mini = Mini({"model.weight": {}})  # a loss that overflows at first
        losses = [*[inf] * 6, 0.7, 0.6, 0.5]
        batches = [("batch", {"bits": (n,)}) for n in range(9)]
        told = [("loss", loss) for loss in losses]
        yield [mini.window(*rows, single, "step optimizer0:SGD") for rows in zip(batches, told, strict=True)]

        mini = Mini({"model.weight": {}})  # a rate that still rises
        rates = [("scalar", "lr", "optimizer0:AdamW.0", 1e-7 * (n + 1)) for n in range(8)]
        windows = []
        for n, rate in enumerate(rates):
            batch = ("batch", {"bits": (n,)})
            windows.append(mini.window(batch, single, ("loss", 0.7), rate, "step optimizer0:AdamW"))
        yield windows

        mini = Mini({"model.weight": {}})  # a policy that has hardly left its reference
        tiny = (single, ("loss", 0.7), ("scalar", "lr", "optimizer0:AdamW.0", 5e-7), "step optimizer0:AdamW")
        yield [mini.window(("batch", {"bits": (n,)}), *tiny) for n in range(8)]

        mini = Mini({"model.weight": {}})  # a scaler that skips the first steps of a fused optimizer
        skipped = (single, ("loss", 0.7), "step optimizer0:AdamW", "scaler.update")
        scales = [("scalar", "scale", "train.py:9", 2.0 ** (16 - n)) for n in range(8)]
        yield [mini.window(("batch", {"bits": (n,)}), *skipped, scale) for n, scale in enumerate(scales)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        yield [mini.window("backward", ("loss", 2.3), "step optimizer0:SGD") for _ in range(30)]
        mini = Mini({"model.weight": {}})
        single = ("backward", {"args": {"dtype": "float32"}})
        yield [mini.window(("batch", {"bits": (n,)}), single, ("loss", 0.7), "step optimizer0:SGD") for n in range(5)]


def _inputs(batches: list[Batch]) -> list[list[int | None]]:
    """The fingerprints of what went in, as far as they are known."""
    return [batch.bits for batch in batches if batch.bits and None not in batch.bits]


def _rough(window: Window) -> bool:
    """Whether a loss may be a number of low precision."""
    return any((call.args or {}).get("dtype") not in _EXACT for call in window.named("backward"))
