"""The parameters of a model play the parts that they did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Premise, Relation
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Variable, Window

_EARLY = 8
"""Looks from the first one on: later on, layers may be frozen, thawed or joined by a plan that a shorter run never saw."""
_ROW = 3
"""Looks without a gradient, from the first one on, after which a parameter counts as one that gets none."""
_SAME = 3
"""Looks that must agree before it is said that parameters move between steps, or rest."""
_FOLLOWED = 64
"""Steps in which parameters are followed: looks at their values may lie apart."""
_NEVER_STEPPED = -1
_MOST_NAMES = 4
_ALL = "all of "
_VARIED = "not all alike"
_GETS, _GETS_NONE, _UNKNOWN = "gets gradients", "gets no gradients", ""
_MOVES, _RESTS = "changes between steps", "rests between steps"


class ParametersAlike(Relation):
    """Parameters play the parts that they did in the runs this was learnt from.

    Learnt is of each parameter, by its name without the numbers in it, whether an optimizer trains it, it is frozen, or it is
    in no optimizer; whether it gets gradients; and whether its values are changed between two steps, as those of an
    averaged copy are. A copy of what steps leave as it was, such as a bias in front of a normalization, follows nothing.
    Of a model or module whose parameters agree it is said once, of all of it. Layers that differ in a number alone are
    taken together, and nothing is learnt of them where they do not agree. It is judged in the first steps of a run, as far as eight looks go and as it was at the first of them: what is
    thawed later, and when, is a setting. So a run that goes on with the state of an optimizer is not judged.
    A gradient of zeros counts as none. That parameters get gradients is learnt where they do in each look from the third to the
    eighth, that they get none where they do in no look; and what gets none in the first three is against the former.
    """

    name = "parameters-alike"
    fields = ("parameters", "what")
    needs = frozenset({"step", "state", "backward", "load_state_dict"})
    wakes = frozenset({"step", "backward", "load_state_dict"})
    severity = "warning"
    priority = 39
    learns = True
    least = 2
    support = 2
    cause = "parameters are frozen, left out of the optimizer, cut off from the loss or overwritten, other than in the runs this was learnt from"
    advice = "compare what the optimizer is given, which parameters take gradients, and what is written to them, with a correct run"

    def __init__(self) -> None:
        self._steps = 0
        self._looks: dict[tuple[str, int], int] = {}
        self._past: dict[str, list[bool]] = {}
        self._owners: dict[str, set[int]] = {}
        self._known: dict[int, tuple[int, int]] = {}  # the fingerprint, and after how many steps it was that
        self._past_of: dict[str, list[str]] = {}
        self._led: dict[int, tuple[int, int]] = {}  # trained parameters as they were at the last look at others
        self._first: dict[tuple[str, str], str] = {}

    def see(self, window: Window) -> Iterator[Example]:
        steps = steps_of(window)
        if is_resumed(window) or not steps:
            return
        self._steps += 1
        if 1 < self._steps <= _EARLY:
            yield from self._roles(window, steps[-1])
        for step in steps:
            if step.gradients is not None and self._looked("gradients", step.optimizer) <= _EARLY:
                yield from self._gradients(window, step)
        if self._steps <= _FOLLOWED:
            yield from self._movement(window, steps)

    def _looked(self, what: str, optimizer: int) -> int:
        self._looks[what, optimizer] = looks = self._looks.get((what, optimizer), 0) + 1
        return looks

    def _as_at_first(
        self, what: str, told: Iterable[tuple[str, str, tuple[str, ...]]], step: Step
    ) -> Iterator[Example]:
        """What is told of parameters while it is as it was at the first look: what comes after is a plan's."""
        for pattern, found, names in told:
            if self._first.setdefault((pattern, what), found) == found:
                yield Example((pattern, what), True, {}, names, call=step.call, value=found)

    def _roles(self, window: Window, step: Step) -> Iterator[Example]:
        told = [(one.name, _role(one)) for one in window.run.variables.values() if one.kind == "parameter"]
        yield from self._as_at_first("role", _together(told), step)

    def _gradients(self, window: Window, step: Step) -> Iterator[Example]:
        assert step.gradients is not None
        got: dict[str, bool] = {}  # of several experts, some may be left out by chance
        for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True):
            pattern = pattern_of(window.run.name(ident))
            got[pattern] = got.get(pattern, False) or (norm is not None and norm != 0)
        told: dict[str, dict[str, list[str]]] = {}
        for pattern, any_ in got.items():
            past = self._past.setdefault(pattern, [])
            past.append(any_)
            for part in (pattern, *(_ALL + part for part in _parts(pattern)[:-1])):
                self._owners.setdefault(part, set()).add(step.optimizer)
                told.setdefault(part, {}).setdefault(_gets(past), []).append(pattern)
        for part, words in told.items():
            word = next(iter(words)) if len(words) == 1 else _VARIED
            if word != _UNKNOWN and words.keys() != {_UNKNOWN, _GETS} and len(self._owners[part]) == 1:
                # Of a part whose parameters differ, those that get none are named, or the rest of which less is known.
                odd = words.get(_GETS_NONE) or words.get(_UNKNOWN) or []
                names = tuple(odd[:_MOST_NAMES]) if word == _VARIED else (part.removeprefix(_ALL),)
                yield from self._as_at_first("gradients", [(part, word, names)], step)

    def _movement(self, window: Window, steps: list[Step]) -> Iterator[Example]:
        for step in steps:
            if step.before is not None and step.before.bits:
                yield from self._moved(window, step, step.before.fingerprints, step.done)
            if step.after is not None and step.after.bits:
                self._known.update((ident, (bits, step.done + 1)) for ident, bits in step.after.fingerprints.items())
        for state in window.states:
            aside = (state.extra or {}).get("optimizer") == -1  # what no optimizer has, which is looked at beside
            if aside and state.what == "parameter" and state.moment == "before_step" and state.bits:
                owned = {one.id for one in window.run.variables.values() if one.optimizer >= 0}
                held = {one: bits for one, bits in state.fingerprints.items() if one not in owned}
                resting = self._resting(window, owned)
                held = {one: bits for one, bits in held.items() if _within(window.run.name(one)) not in resting}
                yield from self._moved(window, steps[-1], held, _NEVER_STEPPED)
                self._known.update((ident, (bits, _NEVER_STEPPED)) for ident, bits in held.items())

    def _resting(self, window: Window, owned: set[int]) -> set[str]:
        """What trained parameters are called that steps have left as they were since the last look at others."""
        resting = set()
        for ident in owned & self._known.keys():
            known, before = self._known[ident], self._led.get(ident)
            if before is not None and before[0] == known[0] and before[1] != known[1]:
                resting.add(_within(window.run.name(ident)))
            self._led[ident] = known
        return resting

    def _moved(self, window: Window, step: Step, now: Mapping[int, int], done: int) -> Iterator[Example]:
        """Compare with what was known after as many steps: what a step did that nobody looked at does not count."""
        told = []
        for ident, bits in now.items():
            before, steps = self._known.get(ident, (0, None))
            if steps == done:
                told.append((window.run.name(ident), _RESTS if bits == before else _MOVES))
        for pattern, found, names in _together(told):
            past = self._past_of.setdefault(pattern, [])
            past.append(found)
            if _SAME <= len(past) <= _EARLY + _SAME and len(set(past)) == 1:
                yield Example((pattern, "between steps"), True, {}, names, call=step.call, value=found)

    @classmethod
    def follows_from(cls, subject: Mapping[str, Any]) -> Iterator[tuple[Premise, ...]]:
        same = {field: subject[field] for field in ("what", "value") if field in subject}
        for part in _parts(str(subject.get("parameters")).removeprefix(_ALL))[:-1]:
            yield (Premise(cls.name, {"parameters": _ALL + part, **same}),)

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return bool(subject.get("value", _VARIED) == _VARIED)  # what differs from layer to layer, or from step to step

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"{subject.get('parameters')} {subject.get('value')}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(0.5)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(None)
        yield _run(0.5, trainable=False)
        yield _run(0.5, drift=1)


def _within(name: str) -> str:
    return name.partition(".")[2]


def _role(one: Variable) -> str:
    if one.shared >= 0:
        return "is one with another parameter"
    if not one.trainable:
        return "is frozen"
    return "is trained by an optimizer" if one.optimizer >= 0 else "is in no optimizer"


def _gets(past: list[bool]) -> str:
    """Whether gradients come, of what came so far; those of the first looks may be zero, as those below zero weights are."""
    if len(past) >= _ROW and not any(past):
        return _GETS_NONE
    return _GETS if len(past) >= _EARLY - 1 and all(past[_ROW - 1 :]) else _UNKNOWN


def _together(told: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """What is told of parameters, of those together whose names differ in numbers alone, and of all of a module or model."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, word in told:
        found.setdefault(pattern_of(name), {}).setdefault(word, []).append(name)
    whole: dict[str, dict[str, list[str]]] = {}
    for pattern, words in found.items():
        word = next(iter(words)) if len(words) == 1 else _VARIED
        names = min(words.values(), key=len)[:_MOST_NAMES]
        for part in _parts(pattern)[:-1]:
            whole.setdefault(part, {}).setdefault(word, []).extend(names)
        yield pattern, word, tuple(names)
    for part, words in whole.items():
        word = next(iter(words)) if len(words) == 1 else _VARIED
        yield _ALL + part, word, tuple(min(words.values(), key=len)[:_MOST_NAMES])


@lru_cache(maxsize=65536)
def _parts(pattern: str) -> list[str]:
    """What a parameter is a part of, from the model on, and itself."""
    words = pattern.split(".")
    return [".".join(words[:count]) for count in range(1, len(words) + 1)]


def _run(gradient: float | None, trainable: bool = True, drift: int = 0) -> list[Window]:
    mini = Mini({"model.body.weight": {}, "model.head.weight": {"trainable": trainable}})
    one, other = "model.body.weight", "model.head.weight"
    return [
        mini.window(
            ("gradients", {one: 0.5, other: gradient}),
            ("before", {one: (1.0, number), other: (1.0, number + drift * number)}),
            "step optimizer0:SGD",
            ("after", {one: (1.0, number + 1), other: (1.0, number + 1)}),
        )
        for number in range(12)
    ]
