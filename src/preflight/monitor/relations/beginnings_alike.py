"""Parameters begin as large as they did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, log2, prod
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import optimizer_number, steps_of
from preflight.monitor.window import State, Variable, Window

_LEAST_NUMBERS = 64
"""Numbers of which a parameter consists at least whose size is told: of few, chance decides."""
_MARKS = 8
"""Marks for a doubling, to which sizes are rounded."""
_ROOM = 0.6
"""How many doublings a size may lie beside the one that was learnt; ways to draw weights lie further apart."""
_ZERO, _ONE, _VARIED = "zeros", "of size one", "not all alike"


class BeginningsAlike(Relation):
    """Parameters begin their training as large as they began it in the runs this was learnt from.

    Learnt is of each parameter, by its name without the numbers in it and the kind of its layer, before the first step: whether it is all zeros; of one
    with a single axis whether it is of size one, as the scale of a normalisation; and of matrices the root of the mean square.
    That of a wider model is smaller, by the root of what a number is computed from, or of how many numbers are computed from
    it, or of both, or in proportion to one of these: a size is as it was where it is so in one of these measures. Of a matrix of less than 64 numbers no size is
    told, nor where layers of one name differ. It is asked only of models with as many parameters, since deeper ones may begin
    smaller, and of those that were loaded only where they were loaded then; and not of a run that goes on with the state of
    an optimizer.
    """

    name = "beginnings-alike"
    fields = ("parameters", "layer")
    needs = frozenset({"step", "state", "backward", "load_state_dict"})
    wakes = frozenset({"step", "backward", "load_state_dict"})
    severity = "warning"
    priority = 43
    asked = ("how_many_parameters", "loaded")
    learns = True
    least = 1
    support = 1
    bounded = True
    cause = "weights are initialised in another way than in the runs this was learnt from: not at all, twice, or with another distribution"
    advice = "look at what initialises these parameters, what runs after it, and what is loaded before the training"

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._loaded = False

    def see(self, window: Window) -> Iterator[Example]:
        # What is no optimizer's is a model's: a training may begin with the weights of another one.
        self._loaded = self._loaded or any(optimizer_number(one) < 0 for one in window.named("load_state_dict"))
        if is_resumed(window) or not (steps := steps_of(window)):
            return
        for step in steps:
            if step.optimizer in self._seen:
                continue
            self._seen.add(step.optimizer)
            if step.before is None or step.done:
                continue
            found: dict[tuple[str, str], list[tuple[str, Any]]] = {}
            for one, size in _sizes(window, step.before):
                found.setdefault((pattern_of(one.name), one.module), []).append((one.name, _measures(one, size)))
            context = {
                "how_many_parameters": sum(one.kind == "parameter" for one in window.run.variables.values()),
                "loaded": "yes" if self._loaded else "no",
            }
            for subject, told in found.items():
                value = _together([value for _, value in told])
                if value is not None:
                    names = tuple(name for name, _ in told[:4])
                    yield Example(subject, True, context, names, call=step.call, value=value)

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        known = values_of(subject)
        if not known or any(_alike(one, value) for one in known):
            return None
        return " or ".join(map(cls.words, known))

    @classmethod
    def words(cls, value: Any) -> str:
        return value if isinstance(value, str) else f"numbers of about {2.0 ** value[0]:.2g}"

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        known = values_of(subject)
        layer = f" of {subject['layer']}" if subject.get("layer") else ""
        return f"{subject.get('parameters')}{layer} begins as {' or '.join(map(cls.words, known))}"

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return bool(subject.get("value") == _VARIED)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(4.0)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(0.0)
        yield _run(0.4)


def _sizes(window: Window, state: State) -> Iterator[tuple[Variable, float]]:
    """Parameters with the roots of their mean squares."""
    for ident, norm in zip(state.ids, state.norm, strict=True):
        one = window.run.variables.get(ident)
        if one is not None and norm is not None and isfinite(norm) and one.numel > 0 and one.spread is None:
            yield one, norm / one.numel**0.5


def _measures(one: Variable, size: float) -> Any:
    """How large a parameter is, in words or in the measures that may stay when a model gets wider."""
    if size == 0:
        return _ZERO
    if len(one.shape) < 2:
        return _ONE if abs(size - 1) < 1e-4 else _VARIED
    if one.numel < _LEAST_NUMBERS:
        return None
    inputs, outputs = prod(one.shape[1:]), one.shape[0]
    factors = (1.0, inputs**0.5, outputs**0.5, (inputs + outputs) ** 0.5, inputs, outputs)
    return tuple(round(_MARKS * log2(size * factor)) / _MARKS for factor in factors)


def _together(values: Sequence[Any]) -> Any:
    """What several layers of one name have in common; None where they differ."""
    first = values[0]
    if any(value is None or not _alike(first, value) for value in values):
        return None
    return list(first) if isinstance(first, tuple) else first


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return any(abs(a - b) <= _ROOM for a, b in zip(one, other, strict=True))


def _run(norm: float) -> list[Window]:
    mini = Mini({"model.fc.weight": {"shape": [16, 16], "numel": 256}})
    before = ("before", {"model.fc.weight": norm})
    return [mini.window("backward", before, "step optimizer0:SGD"), mini.window("backward", "step optimizer0:SGD")]
