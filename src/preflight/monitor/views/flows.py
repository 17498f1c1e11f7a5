"""Looks at the whole graph of a loss: at which place each was taken, and when enough of them are there to say something."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from preflight.monitor.scope import processes_of, torch_of
from preflight.monitor.views.depth import blocks_for, graph_of
from preflight.monitor.views.resumed import is_resumed
from preflight.monitor.views.steps import steps_of
from preflight.monitor.window import Call, Window

_LOOKS = 3
"""Looks at a place before anything is said of it: what differs within them is not said at all."""
_MOST_TOLD = 7
"""Steps in which something is said of a place: the recorder looks at the first few passes of each."""


class Flows:
    """The places in the code from which a training goes backward, told apart by their order, and the looks at their graphs."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._looks: dict[str, int] = {}
        self._said: dict[str, int] = {}
        self._blocks: dict[
            str, float
        ] = {}  # how many of them the graph of a place must be of, to be that of any number

    def due(self, window: Window, take: Callable[[str, Mapping[str, Any], bool], None]) -> Iterator[tuple[int, Call]]:
        """Yield the places of which something is to be said in this window: a step was made of a pass from there.

        Nothing is due in a run that goes on with the state of an optimizer, in which a term may have begun before.

        Args:
            window: What is looked at.
            take: Called before that with each look at a graph that told something: its place, what was told, and whether
                it is the first one.

        Yields:
            The number of the place, and the last backward pass from there.
        """
        passes = window.named("backward")
        if is_resumed(window) or (passes and all(self._said.get(one.place or "", 0) >= _MOST_TOLD for one in passes)):
            return
        stepped = {step.call.q: step for step in steps_of(window)}
        for call in window.plain:
            if call.name == "backward":
                self._look(call, take)
            elif call.q in stepped:
                yield from self._of_step(stepped[call.q].named("backward"))

    def context(self, call: Call, window: Window) -> dict[str, Any]:
        """What decides beside the program itself how a graph looks: the depth of the model and the surroundings."""
        return {
            "layers": graph_of(window.run, self._blocks.get(call.place or "", 0)),
            "processes": processes_of(window),
            "torch": torch_of(window),
        }

    def _look(self, call: Call, take: Callable[[str, Mapping[str, Any], bool], None]) -> None:
        place, told = call.place or "", call.args or {}
        self._places.setdefault(place, len(self._places))
        if told.get("flow") is None:
            return
        looks = self._looks[place] = self._looks.get(place, 0) + 1
        if told["flow"]:
            least = max((blocks_for(at, edge) for at, edges in told["flow"].items() for edge in edges), default=0)
            self._blocks[place] = max(self._blocks.get(place, 0), least)
            take(place, told, looks == 1)

    def _of_step(self, passes: Sequence[Call]) -> Iterator[tuple[int, Call]]:
        for place, call in {call.place or "": call for call in passes}.items():
            if self._looks.get(place, 0) >= _LOOKS and self._said.get(place, 0) < _MOST_TOLD:
                self._said[place] = self._said.get(place, 0) + 1
                yield self._places[place], call
