"""The models that took part in the training still do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation, values_of
from preflight.monitor.views.patterns import pattern_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Window

_FIRST = 3
_SINCE = 6
"""Iterations that may pass until a model is run: one of two that are trained in turns may come in every fifth."""
_EARLY = 11
_BESIDE = " beside "


class ModelsTakePart(Relation):
    """Each model that the first steps of the training ran in the runs this was learnt from is run.

    Learnt are the models, by their names, that the program calls in each of the first three iterations with a step; what is called
    now and then is not among them. A target that is never asked, a discriminator that judges nothing or a term for which
    a network is not run any more shows in the sixth iteration: none of the iterations up to it calls the model.
    A run that goes on with the state of an optimizer is not judged: its first steps are not the first of the training.
    """

    name = "models-take-part"
    fields = ("of",)
    needs = frozenset({"forward", "step", "backward", "load_state_dict"})
    wakes = frozenset({"step", "backward", "load_state_dict"})
    severity = "warning"
    priority = 37
    learns = True
    bounded = True
    cause = "a model is left out, or another one is called in its place"
    advice = "look at where the program called the model that is named"

    def __init__(self) -> None:
        self._always: set[str] = set()
        self._ever: set[str] = set()
        self._times = 0

    def see(self, window: Window) -> Iterator[Example]:
        if is_resumed(window) or self._times >= _EARLY or not steps_of(window):
            return
        called = {pattern_of(call.object) for call in window.named("forward")}
        self._times += 1
        if self._times <= _FIRST:
            self._always = called if self._times == 1 else self._always & called
        if self._times <= _SINCE:
            self._ever |= called
        if self._times < _SINCE or not self._ever:
            return
        value = f"{_listed(self._always)}{_BESIDE}{_listed(self._ever)}"
        yield Example(("training",), True, {}, tuple(sorted(self._ever)), call=window.named("step")[-1], value=value)

    @classmethod
    def expected_of(cls, subject: Mapping[str, Any], value: Any) -> str | None:
        _, _, ever = str(value).partition(_BESIDE)
        missing = sorted(_always(subject) - set(ever.split(", ")))
        return f"{' and '.join(missing)} in the first steps" if missing else None

    @classmethod
    def words(cls, value: Any) -> Any:
        return f"{str(value).partition(_BESIDE)[2]} alone"

    @classmethod
    def trivial(cls, subject: Mapping[str, Any]) -> bool:
        return not _always(subject)

    @classmethod
    def sentence(cls, subject: Mapping[str, Any]) -> str:
        return f"The first steps of the training run {_listed(_always(subject))}"

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run("forward model", "forward target")

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run("forward model", "forward model")


def _always(subject: Mapping[str, Any]) -> set[str]:
    """The models that all runs that a statement was learnt of always ran."""
    known = values_of(subject)
    found = [set(str(one).partition(_BESIDE)[0].split(", ")) for one in known]
    return set.intersection(*found) - {""} if found else set()


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _run(*calls: str) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window(*calls, "backward", "step optimizer0:SGD") for _ in range(_EARLY)]
