"""A training begins with losses, gradients and outputs of the sizes that several runs of it began with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, log2, prod
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.scope import precision_of, processes_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.views.tails import may_cancel
from preflight.monitor.window import Call, Window

_LOOKS = 3
"""First looks of which a run's size is the middle one."""
_SPREAD = 1.0
"""How many doublings these may lie apart: beyond, what is looked at swings too much to have a size."""
_MARKS = 4
"""Marks for a doubling, to which sizes are rounded."""
_MARGIN = {"the loss": 1.0, "the gradients": 2.0, "the output": 1.5}
"""How many doublings a run may lie outside of what the runs before it showed."""
_LEAST = 2.0**-20
_LEAST_NUMBERS = 64


class MagnitudesAlike(Relation):
    """The first losses, gradients and outputs of a training are of the sizes that they had in several runs of it.

    Learnt of two runs or more, because one alone cannot tell how far apart good ones lie: the middle one of the first three
    losses of each place that calls ``backward``, of the norms of all gradients of an optimizer before its first three steps,
    and of the outputs of each model that is trained (the root of their mean square). A run may lie outside of what these
    showed by as much as they lie apart, and by a factor that other widths need: two for losses, four for gradients, three
    for outputs.
    A loss may be summed, and so losses and gradients are compared with those of batches of the same size alone.
    Nothing is said of what swings by more than twice within the first three looks or is next to nothing, of a loss that may be
    of either sign, as what a critic gives out, whose size is what is left of a difference; of losses and gradients where steps are made of several passes of a place, since the number of these is a setting, nor of a run that
    goes on with the state of an optimizer.
    """

    name = "magnitudes-alike"
    fields = ("of", "which")
    needs = frozenset({"step", "backward", "forward", "tensor", "scalar", "state", "load_state_dict"})
    wakes = frozenset({"step", "backward", "forward", "load_state_dict", "scalar loss"})
    severity = "warning"
    priority = 49
    asked = ("batch", "precision_of_the_weights", "processes", "scaled")
    learns = True
    bounded = True
    runs = 2
    least = 1
    support = 1
    cause = "a loss is summed or weighed in another way, an activation or an initialisation was changed, or data of another size comes in"
    advice = "compare how the first loss comes about with a correct run: what the model is given, what it gives out, how the loss is reduced"

    def __init__(self) -> None:
        self._logs: dict[tuple[str, Any], list[float]] = {}
        self._places: dict[str, int] = {}
        self._several: set[str] = set()
        self._signed: set[str] = set()  # places whose losses may be of either sign
        self._scaled = False
        self._batch: int | None = None
        self._waiting: dict[str, list[float]] = {}  # by place: the losses since the last step

    def see(self, window: Window) -> Iterator[Example]:
        if is_resumed(window):
            return
        self._scaled = self._scaled or bool(window.named("scaler.scale"))
        for one in window.numbers:
            if one.name == "loss" and one.value is not None:
                self._places.setdefault(one.object, len(self._places))
                self._waiting.setdefault(one.object, []).append(abs(one.value))
                if one.value < 0:
                    self._signed.add(one.object)
        for call in window.named("backward"):
            tail = (call.args or {}).get("tail")
            if tail and may_cancel(tail):
                self._signed.update(place for place in self._places if (call.place or "").endswith(place))
        if self._batch is None:
            self._batch = _batch_of(window)
        yield from self._outputs(window)
        steps = steps_of(window)
        if not steps:
            return
        for place, losses in self._waiting.items():
            if len(losses) > 1:
                self._several.add(place)
            elif place not in self._several | self._signed:
                yield from self._told(
                    ("the loss", self._places[place]), losses[0], ("loss",), self._context(window), steps[-1].call
                )
        self._waiting.clear()
        for step in steps:
            yield from self._gradients(step, window)

    def _gradients(self, step: Step, window: Window) -> Iterator[Example]:
        places = [call.place for call in step.named("backward")]
        if step.gradients is None or step.closure or len(places) != len(set(places)):
            return
        norms = [norm for norm in step.gradients.norm if norm is not None]
        if not all(map(isfinite, norms)):
            return
        size = sum(norm * norm for norm in norms) ** 0.5
        yield from self._told(("the gradients", step.kind), size, (step.call.object,), self._context(window), step.call)

    def _outputs(self, window: Window) -> Iterator[Example]:
        calls = {call.q: call for call in window.named("forward") if call.context.startswith("grad")}
        for seen in window.tensors:
            call = calls.get(seen.call)
            if call is None or seen.position != "out0" or not seen.norm or "float" not in seen.dtype:
                continue
            count = prod(seen.shape)
            if (call.args or {}).get("training") and count >= _LEAST_NUMBERS:
                name = pattern_of(call.object)
                context = {"precision_of_the_weights": precision_of(window)}
                yield from self._told(("the output", name), seen.norm / count**0.5, (call.object,), context, call)

    def _context(self, window: Window) -> dict[str, Any]:
        return {"batch": self._batch, "processes": processes_of(window), "scaled": self._scaled}

    def _told(
        self, subject: tuple[str, Any], size: float, variables: tuple[str, ...], context: Mapping[str, Any], call: Call
    ) -> Iterator[Example]:
        """The size of what is looked at, once it was looked at often enough."""
        logs = self._logs.setdefault(subject, [])
        if len(logs) >= _LOOKS:
            return
        logs.append(log2(size) if isfinite(size) and size > _LEAST else float("nan"))
        if len(logs) < _LOOKS or not max(logs) - min(logs) <= _SPREAD or any(one != one for one in logs):
            return
        value = round(sorted(logs)[_LOOKS // 2] * _MARKS) / _MARKS
        yield Example(subject, True, context, variables, call=call, value=value)

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        known = values_of(subject)
        if not known:
            return None
        low, high = min(known), max(known)
        room = max(_MARGIN[str(subject.get("of"))], high - low)
        return None if low - room <= value <= high + room else cls._between(known)

    @classmethod
    def words(cls, value: Any) -> str:
        return f"about {2.0**value:.2g}"

    @staticmethod
    def _between(known: list[float]) -> str:
        low, high = (f"{2.0**one:.2g}" for one in (min(known), max(known)))
        return f"about {low}" if low == high else f"between {low} and {high}"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        of, which = str(subject.get("of")), subject.get("which")
        name = f"The first {'losses' if of == 'the loss' else of.removeprefix('the ') + ('' if of == 'the gradients' else 's')}"
        whose = (f" number {which + 1}" if which else "") if isinstance(which, int) else f" of {which}"
        return f"{name}{whose} are {cls._between(values_of(subject))}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(2.3)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(23.0)


def _batch_of(window: Window) -> int | None:
    """How many samples the first model that is trained is given at once."""
    calls = {call.q for call in window.named("forward") if call.context.startswith("grad")}
    sizes = (seen.shape[0] for seen in window.tensors if seen.call in calls and seen.position == "in0" and seen.shape)
    return next(sizes, None)


def _run(loss: float) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("forward model", "backward", ("loss", loss), "step optimizer0:SGD") for _ in range(4)]
