"""A load does not put the weights of the start back."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, State, Window


class LoadBringsOn(Relation):
    """Weights that are loaded into a model in training are not those it started with.

    An average of the weights that is never updated holds what it was made from. Copied into the model, it throws away
    all that was trained since, and the training that goes on with the same optimizer starts again each time.
    Judged at the step that follows the load, by fingerprints, where all of the optimizer's parameters had changed since
    the start, the load gave them other values, and the optimizer was not made anew or restored in between: who trains
    from the same start several times on purpose makes a new optimizer, or loads its state back too, unless it keeps none.
    """

    name = "load-brings-on"
    category = "checkpoint"
    needs = frozenset({"load_state_dict", "state", "step"})
    wakes = frozenset(
        {
            "load_state_dict",
            "step",
            "optimizer.new",
            "exact parameter at before_step",
            "exact parameter at after_step",
            "exact parameter at loaded",
        }
    )
    repeats = 2
    looks = frozenset({"step"})
    reads = frozenset(
        {
            "load_state_dict",
            "optimizer.new",
            "exact parameter at before_step",
            "exact parameter at after_step",
            "exact parameter at loaded",
        }
    )
    severity = "warning"
    priority = 13
    cause = "the state that is loaded was copied before the training and never updated (an average without its update)"
    advice = "update the average after each step, and look at what is loaded"

    def __init__(self) -> None:
        self._start: dict[str, int] = {}
        self._now: dict[str, int] = {}
        self._changed: set[str] = set()
        self._all_changed: tuple[int, list[int]] = -1, []  # variables of which that is known, as long as none changes
        self._back: dict[int, tuple[Call | None, tuple[str, ...]]] = {}
        self._states: dict[int, int] = {}  # by optimizer: of how many parameters it keeps a state

    def kept(self) -> object:
        """Of which optimizers the next step is to be judged."""
        return set(self._back)

    def see(self, window: Window) -> Iterator[Example]:
        events: list[Call | State] = [one for one in window.states if one.what == "parameter" and one.bits]
        for name in ("load_state_dict", "optimizer.new"):
            events += window.named(name)
        if not events and not self._back:
            return
        events += window.named("step")
        for event in sorted(events, key=ORDER):
            if isinstance(event, State):
                self._state(event, window)
            elif event.name == "step":
                number = _number(event)
                told = (event.args or {}).get("states")
                self._states[number] = (
                    max(told or 0, self._states.get(number, 0)) if told is not None else self._states.get(number, 1)
                )
                if number in self._back:
                    call, names = self._back.pop(number)
                    yield self._example(event, call, names if self._states[number] else ())
            elif _number(event) >= 0:
                self._back.clear()

    def _state(self, state: State, window: Window) -> None:
        changes = window.run.variables.changes
        if state.moment != "loaded" and self._all_changed == (changes, state.ids):
            return
        held = {
            window.run.name(ident): bits
            for ident, bits in zip(state.ids, state.bits or (), strict=False)
            if bits is not None
        }
        if state.moment == "loaded":
            calls = [call for call in window.named("load_state_dict") if call.q < state.q and _number(call) < 0]
            call = calls[-1] if calls else None
            owned: dict[int, list[str]] = {}
            for one in window.run.variables.values():
                if one.optimizer >= 0 and one.trainable and one.name in held:
                    owned.setdefault(one.optimizer, []).append(one.name)
            for optimizer, names in owned.items():
                if self._changed.issuperset(names):
                    back = all(held[name] == self._start.get(name) for name in names)
                    self._back[optimizer] = call, tuple(names) if back else ()
        elif state.moment == "before_step":
            for name, bits in held.items():
                self._start.setdefault(name, bits)
        if state.moment in ("before_step", "after_step", "loaded"):
            for name, bits in held.items():
                if name in self._start and bits != self._start[name]:
                    self._changed.add(name)
                elif state.moment == "loaded":
                    self._changed.discard(name)
            if state.moment == "loaded":
                self._all_changed = -1, []
            elif len(held) == len(state.ids) and self._changed.issuperset(held):
                self._all_changed = changes, state.ids

    @staticmethod
    def _example(step: Call, call: Call | None, names: tuple[str, ...]) -> Example:
        return Example(
            (),
            not names,
            {"optimizer": step.object.split(":")[-1]},
            variables=names,
            expected="weights other than those before the first step",
            seen="the weights of before the first step" if names else None,
            call=call or step,
            detail="A load put the weights of the start back, and the training goes on from there" if names else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(9)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(7)


def _number(call: Call) -> int:
    word = call.object.split(":")[0]
    return int(word[9:]) if word.startswith("optimizer") and word[9:].isdigit() else -1


def _run(loaded: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    trained = (("before", {"model.weight": (1.0, 7)}), "step optimizer0:SGD", ("after", {"model.weight": (1.0, 8)}))
    back = ("load_state_dict model", ("loaded", {"model.weight": (1.0, loaded)}))
    return [mini.window(*trained, *back), mini.window("step optimizer0:SGD")]
