"""The optimizer's state comes back to the parameters that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, State, Window
from preflight.vocabulary.counted import counted


class StateRoundTrip(Relation):
    """After it was saved and loaded, each parameter has the optimizer state that was saved for it.

    The state of an optimizer is stored by the position of its parameters, not by their names: a program that hands them
    over in another order gives each the moments of another, without an error where shapes allow it.
    Judged by fingerprints where the state that is loaded is, taken as a whole, one that was saved before in this run.
    """

    name = "state-round-trip"
    category = "checkpoint"
    needs = frozenset({"save", "load_state_dict", "state"})
    wakes = frozenset({"exact optimizer at saved", "exact optimizer at loaded"})
    whole = False
    priority = 17
    cause = "the parameters are handed to the optimizer in another order than in the run that saved its state"
    advice = "build the optimizer's parameter groups in the same order, or map the saved state by the parameters' names"

    def __init__(self) -> None:
        self._saved: list[dict[str, tuple[int | None, ...]]] = []

    def see(self, window: Window) -> Iterator[Example]:
        for state in window.states:
            if state.what != "optimizer" or state.bits is None:
                continue
            held = _by_name(state, window)
            if state.moment == "saved":
                self._saved = [*self._saved[-15:], held]
            elif state.moment == "loaded":
                yield from self._judge(held, window, state)

    def _judge(self, held: dict[str, tuple[int | None, ...]], window: Window, state: State) -> Iterator[Example]:
        for saved in reversed(self._saved):
            if set(saved) != set(held) or sorted(map(repr, saved.values())) != sorted(map(repr, held.values())):
                continue
            wrong = tuple(sorted(name for name, bits in held.items() if saved[name] != bits))
            yield Example(
                (),
                not wrong,
                {},
                variables=wrong,
                expected="for each parameter the state that was saved for it",
                seen=f"the state of another in {len(wrong)} of {counted(len(held), 'parameter')}" if wrong else None,
                call=_load(window, state),
                detail="The optimizer's state was loaded into other parameters than it was saved for" if wrong else "",
            )
            return

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _trip({"model.a": (1.0, 7), "model.b": (2.0, 8)})

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _trip({"model.a": (2.0, 8), "model.b": (1.0, 7)})


def _by_name(state: State, window: Window) -> dict[str, tuple[int | None, ...]]:
    held: dict[str, tuple[int | None, ...]] = {}
    for ident, bits in zip(state.ids, state.bits or (), strict=False):
        name = window.run.name(ident)
        held[name] = (*held.get(name, ()), bits)
    return held


def _load(window: Window, state: State) -> Call | None:
    found = [
        call for call in window.named("load_state_dict") if call.q < state.q and call.object.startswith("optimizer")
    ]
    return found[-1] if found else None


def _trip(loaded: dict[str, tuple[float, int]]) -> list[Window]:
    mini = Mini({"model.a": {}, "model.b": {}})
    saved = mini.window("save", ("states", {"model.a": (1.0, 7), "model.b": (2.0, 8)}))
    saved.states = [state._replace(moment="saved") for state in saved.states]
    after = mini.window("load_state_dict optimizer0:Adam", ("states", loaded))
    after.states = [state._replace(moment="loaded") for state in after.states]
    return [saved, after]
