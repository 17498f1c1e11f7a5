"""Weights do not come back to what they were at the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan, nan
from operator import eq

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, State, Window
from preflight.vocabulary.counted import counted

_STEPS = 5
_NEARLY_ALL = 0.9


class WeightsMoveOn(Relation):
    """What training has made of the weights is not thrown away in the middle of a run.

    An average that is never brought on holds the weights of the beginning. Where it is put into the model before a
    checkpoint or an evaluation and stays there, each epoch begins anew and all checkpoints are the same.
    Compared are the norms of an optimizer's parameters before a step, or when they are saved, with those before its first
    step, after at least five steps. Broken where nearly all are the same again, to the last digit, and were not after the
    step before. Weights that ``load_state_dict`` brings back are left alone, and so is an optimizer whose weights came
    back before: programs that learn how to begin (meta learning) do so again and again. Where the state of the optimizer is
    gone, too, somebody began anew, as after a search for the rate.
    """

    name = "weights-move-on"
    needs = frozenset({"step", "state", "load_state_dict"})
    wakes = frozenset({"step", "parameter at saved"})
    severity = "error"
    priority = 10
    cause = "weights that were stored at the beginning are copied into the model, and the trained ones are not put back"
    advice = (
        "restore the trained weights after the checkpoint or the evaluation, and bring the average on after each step"
    )

    def __init__(self) -> None:
        self._first: dict[int, float] = {}  # by variable
        self._last: dict[int, float] = {}  # after the last step, but for the states that follow
        self._after: dict[int, State] = {}  # by optimizer: of its last step
        self._owner: dict[int, int] = {}
        self._done: dict[int, int] = {}
        self._back: set[int] = set()
        self._loaded = -1
        self._states: dict[str, int] = {}  # by optimizer: of how many parameters it has a state
        self._begun: tuple[list[int], list[float]] = [], []  # variables of one optimizer, and their first norms
        self._counted = -1, 0  # the optimizer, and how many of them are known

    def see(self, window: Window) -> Iterator[Example]:
        events: list[Call | State] = [*window.named("load_state_dict")]
        events += [
            one
            for one in window.states
            if one.what == "parameter" and one.moment in ("before_step", "after_step", "saved")
        ]
        for call in window.named("step"):
            if self._emptied(call):
                self._loaded = window.iteration
        for event in sorted(events, key=ORDER):
            if isinstance(event, Call):
                self._loaded = window.iteration
                continue
            index: int = (event.extra or {}).get("optimizer", -1)
            if event.moment == "after_step":
                self._done[index] = self._done.get(index, 0) + 1
                self._stepped(index, event)
                continue
            if index == -1 and event.moment != "saved":
                continue
            if event.moment == "before_step" and self._only_of(index, event):
                if index in self._back:
                    continue
                if self._moved_on(index, event):
                    yield Example((), True, {}, call=next(iter(window.named("step")), None))
                    continue
            norms = _norms(event)
            if event.moment != "saved" and index not in self._done:
                self._begun = [], []
                self._first.update(norms)
                self._owner.update(dict.fromkeys(norms, index))
            else:
                yield from self._judge(norms, window)

    def _emptied(self, step: Call) -> bool:
        """Whether an optimizer has no state any more."""
        states = (step.args or {}).get("states")
        if states is None:
            return False
        before, self._states[step.object] = self._states.get(step.object, 0), int(states)
        return int(states) == 0 < before

    def _stepped(self, index: int, state: State) -> None:
        """Keep the norms after a step: of most, only until the next one."""
        known = self._after.pop(index, None)
        if known is not None and (known.ids != state.ids or not (state.sound or all(state.norm))):
            self._last.update(_norms(known))
        self._after[index] = state  # the one that is told last stands last

    def _only_of(self, index: int, state: State) -> bool:
        """Whether the parameters are of one optimizer alone."""
        if self._begun[0] != state.ids:
            if not all(self._owner.get(ident, index) == index for ident in state.ids):
                return False
            self._begun = state.ids, [self._first.get(ident, nan) for ident in state.ids]
            self._counted = index, len(state.ids) - sum(map(isnan, self._begun[1]))
        return self._counted[0] == index

    def _moved_on(self, index: int, state: State) -> bool:
        """Whether they have left the beginning, as they mostly have: none has its first norm. No where it takes a closer look."""
        after, first = self._after.get(index), self._begun[1]
        if self._done.get(index, 0) < _STEPS or len(self._after) != 1 or after is None or after.ids != state.ids:
            return False
        if not (after.sound or all(after.norm)) or not (state.sound or all(state.norm)):
            return False
        if any(map(eq, state.norm, first)):
            return False
        rest: int = sum(map(eq, after.norm, first))
        return self._counted[1] - rest >= 2

    def _judge(self, norms: dict[int, float], window: Window) -> Iterator[Example]:
        for state in self._after.values():
            self._last.update(_norms(state))
        self._after.clear()
        held: dict[int, list[int]] = {}
        for ident in norms:
            if ident in self._first and ident in self._last:
                held.setdefault(self._owner[ident], []).append(ident)
        for index, idents in held.items():
            moved = [ident for ident in idents if self._last[ident] != self._first[ident]]
            if self._done.get(index, 0) < _STEPS or len(moved) < 2 or index in self._back:
                continue
            back = [ident for ident in moved if norms[ident] == self._first[ident]]
            wrong = len(back) >= _NEARLY_ALL * len(moved)
            if wrong:
                self._back.add(index)
                wrong = not 0 <= self._loaded >= window.iteration - 1
            yield Example(
                (),
                not wrong,
                {},
                variables=tuple(window.run.name(ident) for ident in back) if wrong else (),
                expected="weights that the steps so far have changed",
                seen=counted(
                    len(back),
                    "parameter as it was before the first step",
                    "parameters as they were before the first step",
                )
                if wrong
                else None,
                call=next(iter(window.named("step")), None),
                detail="All that was learnt is gone: the weights are those of the beginning" if wrong else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(back=False)
        yield _run(back=True, loaded=True)
        yield _run(back=True, emptied=True)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(back=True)


def _norms(state: State) -> dict[int, float]:
    return {ident: norm for ident, norm in zip(state.ids, state.norm, strict=True) if norm}


def _run(back: bool, loaded: bool = False, emptied: bool = False) -> list[Window]:
    names = ["model.a.weight", "model.b.weight"]
    mini = Mini({name: {} for name in names})
    windows = []
    for step in range(8):
        begun = 0 if back and step == 7 else step
        before, after = (dict.fromkeys(names, 1.0 + 0.01 * value) for value in (begun, begun + 1))
        load = ["load_state_dict model"] if loaded and step == 7 else []
        states = {"args": {"states": 0 if emptied and step in (0, 7) else 2}}
        moved = ("step optimizer0:Adam", states)
        step_rows = (("before", before, {"optimizer": 0}), moved, ("after", after, {"optimizer": 0}))
        windows.append(mini.window(*load, "forward model", "backward", *step_rows))
    return windows
