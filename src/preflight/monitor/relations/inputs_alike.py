"""What a model is given is of the scale that it was, and changes as it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, log2, prod
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.fetches import fetches_of
from preflight.monitor.views.options import overfits
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Batch, Call, Seen, Window

_LOOKS = 3
"""Looks of which a run's scale is the middle one, and after which inputs may be told to differ."""
_ROW = 5
"""Looks from the first one on in which inputs must be the same to be told so: later ones lie apart, perhaps by whole epochs."""
_EARLY = 8
"""Looks from the first one on: what networks give each other, and what agents see, moves on with the training."""
_LEAST_NUMBERS = {True: 64, False: 256}
"""Numbers of which an input consists at least: that of an evaluation is looked at once, and must be within less."""
_FEWEST = 4
"""Numbers of which a further input consists at least, to be told to be the same in each step."""
_SCALES = {"scale": (1.0, 2), "scale in evaluation": (4.0, 2)}
"""How many marks there are for a doubling, and how many marks apart still count as the same."""
_SPREAD = {"scale": 1.0, "scale in evaluation": 0.25}
"""How many doublings the first looks in training may lie apart: beyond, a batch is too small to tell the scale of the data."""
_DIFFER, _SAME = "differs from step to step", "is the same in each step"


class InputsAlike(Relation):
    """The inputs of a model are of the scale that they had in the runs this was learnt from, and change from step to step.

    Learnt of each model that the program calls, in the first eight looks: the root of the mean square of what it is given in training,
    which may be up to four times as large or as small in another run; that of what it is given in evaluation, beside
    that in training, where a difference of more than the half counts, both only where the first looks in training agree, as
    those at small batches may not; and whether the inputs of steps are different ones. Where they are
    the same from the first look to the fifth though they were not, something is drawn once that should be drawn each
    time; where a loader has one batch it is that one, and a few steps with one batch are a setting, so that nothing is
    learnt where some of them had the same. It is asked of further inputs, too, of numbers and of what is one for each sample,
    as the time of a diffusion is, while all sizes are as they were.
    Inputs that need gradients, and those of few numbers, are left out. Of a run that goes on with the state of an optimizer, scales
    are not told: what networks and agents are given moves on with the training.
    """

    name = "inputs-alike"
    fields = ("called", "what")
    needs = frozenset({"forward", "tensor", "batch", "fetch", "backward", "load_state_dict"})
    follows = (fetches_of,)
    wakes = frozenset({"forward", "backward", "load_state_dict"})
    severity = "warning"
    priority = 46
    asked = ("sizes",)
    least = 2
    learns = True
    bounded = True
    cause = "the data is normalised, scaled or drawn in another way than in the runs this was learnt from"
    advice = "look at the transforms of the data, in training and in evaluation, and at where it is drawn"

    def __init__(self) -> None:
        self._logs: dict[tuple[str, str], list[float]] = {}
        self._bits: dict[tuple[str, int], list[tuple[int | None, str]]] = {}

    def see(self, window: Window) -> Iterator[Example]:
        calls = {call.q: call for call in window.named("forward")}
        for seen in () if is_resumed(window) else window.tensors:
            call = calls.get(seen.call)
            if call is not None and seen.position == "in0":
                yield from self._scale(call, seen)
        if steps_of(window):
            yield from self._changes(window)

    def _scale(self, call: Call, seen: Seen) -> Iterator[Example]:
        count = prod(seen.shape)
        if not seen.norm or not isfinite(seen.norm) or seen.requires_grad or "float" not in seen.dtype:
            return
        training = bool((call.args or {}).get("training"))
        if training != call.context.startswith("grad") or count < _LEAST_NUMBERS[training]:
            return
        name, what = pattern_of(call.object), "scale" if training else "scale in evaluation"
        logs = self._logs.setdefault((name, what), [])
        if len(logs) >= _EARLY:
            return
        logs.append(log2(seen.norm) - 0.5 * log2(count))
        beside = self._logs.get((name, "scale"), [])
        if len(beside) < _LOOKS or max(beside[:_LOOKS]) - min(beside[:_LOOKS]) > _SPREAD[what]:
            return
        told = _middle(beside[:_LOOKS])
        if not training:
            told = logs[0] - told
        value = round(2.0 ** (round(_SCALES[what][0] * told) / _SCALES[what][0]), 6)
        yield Example((name, what), True, {}, (call.object,), call=call, value=value)

    def _changes(self, window: Window) -> Iterator[Example]:
        calls = {f"forward:{call.object}": call for call in window.named("forward") if call.context.startswith("grad")}
        told: set[tuple[str, int]] = set()
        for batch in window.batches:
            call = calls.get(batch.loader)
            if call is None or (batch.loader, batch.s) in told or not batch.bits or batch.bits[0] is None:
                continue
            # Once for each step: a batch may be fetched once and trained on again and again.
            told.add((batch.loader, batch.s))
            for place in (0, *_others(batch)):
                yield from self._changed(call, batch, place, window)

    def _changed(self, call: Call, batch: Batch, place: int, window: Window) -> Iterator[Example]:
        name, shapes = pattern_of(call.object), str(batch.shapes) if place else ""
        looks = self._bits.setdefault((name, place), [])
        if len(looks) >= _EARLY or batch.bits[place] is None:
            return
        looks.append((batch.bits[place], shapes))
        kinds, alike = len({bits for bits, _ in looks}), len({shapes for _, shapes in looks}) == 1
        same, differ = kinds == 1 and len(looks) >= _ROW, kinds == len(looks) >= _LOOKS
        if alike and (differ or (same and not _of_one_batch(window) and not overfits(window.run))):
            value = _SAME if same else _DIFFER
            context = {"sizes": str([shape[1:] for shape in batch.shapes])} if place else {}
            what = f"input {place + 1}" if place else "input"
            yield Example((name, what), True, context, (call.object,), call=call, value=value)

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        what = str(subject.get("what"))
        known = values_of(subject)
        if what in _SCALES:
            marks = [_SCALES[what][0] * log2(one) for one in (value, *known)]
            if not known or all(abs(marks[0] - one) < _SCALES[what][1] + 0.5 for one in marks[1:]):
                return None
            return " or ".join(map(cls.words, known))
        return None if value in known else str(known[0])

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return subject.get("what") not in _SCALES and subject.get("value", _SAME) == _SAME

    @classmethod
    def words(cls, value: Any) -> str:
        return value if isinstance(value, str) else f"about {value:.2g}"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        what = str(subject.get("what"))
        value = " or ".join(map(cls.words, values_of(subject)))
        if what in _SCALES:
            given = (
                "in training is of size" if what == "scale" else "in evaluation is in size, beside that in training,"
            )
            return f"What {subject.get('called')} is given {given} {value}"
        return f"What {subject.get('called')} is given{what.removeprefix('input') and ' as ' + what} {value}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(1.0, 1.0, 1)
        overfitted = _run(1.0, 1.0, 0, 0)
        overfitted[0].run.begin = {"argv": ["train.py", "--overfit-batch"]}
        yield overfitted

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(100.0, 100.0, 1)
        yield _run(1.0, 3.0, 1)
        yield _run(1.0, 1.0, 0)
        yield _run(1.0, 1.0, 1, 0)


def _others(batch: Batch) -> list[int]:
    """The further inputs that may be drawn: numbers of floating point, or one for each sample, as a time or a class is.

    Masks and ids of tokens are the same in step after step where sequences are of one length.
    """
    told = zip(batch.shapes, batch.dtypes, strict=False)
    return [
        place
        for place, (shape, dtype) in enumerate(told)
        if place and prod(shape) >= _FEWEST and ("float" in dtype or ("int" in dtype and len(shape) == 1))
    ]


def _of_one_batch(window: Window) -> bool:
    """Whether a loader that is trained from has no other batch."""
    return any(fetch.trained and (fetch.batches or 2) <= 1 for fetch in fetches_of(window))


def _middle(values: Any) -> float:
    return float(sorted(values)[len(values) // 2])


def _run(size: float, evaluated: float, drawn: int, beside: int = 1) -> list[Window]:
    mini = Mini({"model.weight": {}})
    inputs = {"loader": "forward:model", "shapes": [[16, 16], [16]], "dtypes": ["float32", "int64"]}
    windows = []
    for number in range(8):
        run = {"args": {"training": True, "type": "Net"}}
        judged = {"args": {"training": False, "type": "Net"}, "context": "nograd"}
        window = mini.window("step optimizer0:SGD", ("forward model", run), ("forward model", judged))
        given = {"object": "model", "position": "in0", "shape": (16, 16), "requires_grad": False}
        calls = window.named("forward")
        rows = [(calls[0], size), (calls[1], evaluated)]
        more = mini.window(
            *(("tensor", {**given, "norm": 16.0 * scale, "call": call.q}) for call, scale in rows),
            ("batch", {**inputs, "bits": [number * drawn, number * beside]}),
        )
        window.tensors, window.batches = more.tensors, more.batches
        windows.append(window)
    return windows
