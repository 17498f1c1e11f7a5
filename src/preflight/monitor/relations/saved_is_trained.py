"""What is saved is what was trained."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Call, State, Window


class SavedIsTrained(Relation):
    """Weights that are saved under the names of a trained model are not those it started with.

    What goes into a file is compared with the weights that have the same names: those of this moment, and those before
    the first step. An average or the best weights so far are neither. The weights of the start, while the model has
    moved on, are a copy that nobody trained: the file is worthless.
    Judged where all names of the saved state are known, all of the model's trained weights have changed since the
    start, and the state does not share its memory with them.
    """

    name = "saved-is-trained"
    category = "checkpoint"
    needs = frozenset({"save", "state", "step"})
    wakes = frozenset({"exact parameter at before_step", "exact file at saved", "exact parameter at saved"})
    whole = False
    severity = "warning"
    priority = 18
    cause = (
        "the state that is saved was taken before the training, or belongs to a copy of the model that is not trained"
    )
    advice = "call state_dict() of the model that is trained at the moment of saving"

    def __init__(self) -> None:
        self._start: dict[str, int] = {}
        self._taken: dict[int, tuple[int, list[int]]] = {}  # by the first of them: variables whose start is known

    def see(self, window: Window) -> Iterator[Example]:
        if window.run.begin.get("world", 1) > 1 and window.rank:
            return
        files: list[State] = []
        for state in sorted(window.states, key=lambda one: one.q):
            if state.bits is None:
                continue
            if state.moment == "before_step" and state.what == "parameter":
                self._begin(state, window)
            elif state.moment == "saved" and state.what == "file":
                files.append(state)
            elif state.moment == "saved" and state.what == "parameter":
                for file in files:
                    yield from self._judge(file, state, window)
                files = []

    def _begin(self, state: State, window: Window) -> None:
        """Keep the first fingerprint of each variable; at most looks they all have theirs."""
        names = window.run.variables.changes, state.ids
        if not state.ids or self._taken.get(state.ids[0]) == names:
            return
        for ident, bits in zip(state.ids, state.bits or (), strict=True):
            if bits is not None:
                self._start.setdefault(window.run.name(ident), bits)
        if None not in (state.bits or ()):
            self._taken[state.ids[0]] = names

    def _judge(self, file: State, now: State, window: Window) -> Iterator[Example]:
        extra = file.extra or {}
        if extra.get("unknown"):
            return
        present = dict(zip((window.run.name(ident) for ident in now.ids), now.bits or (), strict=False))
        trained = [
            (window.run.name(ident), bits)
            for ident, bits in zip(file.ids, file.bits or (), strict=False)
            if ident in window.run.variables and window.run.variables[ident].optimizer >= 0
        ]
        known = [(name, bits) for name, bits in trained if name in self._start and name in present]
        moved = [(name, bits) for name, bits in known if present[name] != self._start[name]]
        if not known or len(moved) != len(known):
            return
        wrong = not extra.get("alias") and all(bits == self._start[name] for name, bits in moved)
        yield Example(
            (),
            not wrong,
            {},
            variables=tuple(name for name, _ in moved) if wrong else (),
            expected="weights that the training has changed",
            seen="the weights of before the first step" if wrong else None,
            call=_save(window, extra.get("call")),
            detail="The weights that are saved are those the training began with" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(9)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(7)


def _save(window: Window, number: int | None) -> Call | None:
    return next((call for call in window.named("save") if call.q == number), None)


def _run(saved: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    first = mini.window(("before", {"model.weight": (1.0, 7)}), "step optimizer0:SGD")
    last = mini.window("save", ("before", {"model.weight": (1.0, saved)}), ("before", {"model.weight": (1.0, 9)}))
    file, now = last.states
    last.states = [file._replace(moment="saved", what="file", extra={"alias": 0}), now._replace(moment="saved")]
    return [first, last]
