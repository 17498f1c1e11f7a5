"""An average of weights moves once for each step of what it averages."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import Copies, untrained
from preflight.monitor.window import ORDER, Call, State, Window
from preflight.vocabulary.counted import counted


class AveragesWaitForSteps(Relation):
    """A copy of trained weights is not moved twice while these stand still.

    With gradient accumulation a loop passes several times before the weights change. A moving average or a momentum
    encoder that is updated at every pass instead of every step forgets faster by as many times, and the micro-batches of
    one step see different teachers.
    Looked at is a copy before the first step, in the midst of the accumulation and right before the step that follows: it
    may move in one of the two gaps. Steps that were not looked at leave nothing to compare with. Codebooks and others that are no copies of trained weights are not meant.
    """

    name = "averages-wait-for-steps"
    needs = frozenset({"step", "state", "accumulating"})
    wakes = frozenset({"exact parameter at before_step", "exact parameter at accumulating", "step"})
    repeats = 1
    looks = frozenset({"step"})
    reads = frozenset({"exact parameter at accumulating", "exact parameter at before_step"})
    priority = 16
    cause = "the update of the average stands in the loop over micro-batches, without asking whether there was a step"
    advice = "update the average only after optimizer.step()"

    def __init__(self) -> None:
        self._copies = Copies()
        self._before: dict[int, int | None] = {}
        self._amidst: dict[int, int | None] = {}
        self._at = -2  # the steps that had been done when the copy was last seen before one

    def kept(self) -> object:
        """Nothing: of others it says nothing."""
        return ()

    def see(self, window: Window) -> Iterator[Example]:
        events: list[Call | State] = [*window.named("step"), *untrained(window, "accumulating")]
        events += [one for one in window.states if one.moment == "before_step" and one.what == "parameter" and one.bits]
        for event in sorted(events, key=ORDER):
            if isinstance(event, Call):
                self._amidst.clear()
            elif event.moment == "accumulating":
                self._amidst = dict(zip(event.ids, event.bits or (), strict=False))
            else:
                self._copies.see(event)
                if (event.extra or {}).get("optimizer") == -1:
                    if self._amidst and self._before and event.s == self._at + 1:
                        yield self._judge(event, window)
                    self._before, self._at = dict(zip(event.ids, event.bits or (), strict=False)), event.s

    def _judge(self, state: State, window: Window) -> Example:
        twice = []
        for ident, bits in zip(state.ids, state.bits or (), strict=False):
            amidst = self._amidst.get(ident)
            moved = ident in self._before and self._before[ident] != amidst and amidst != bits
            if moved and self._copies.originals(ident, window, exact=False):
                twice.append(window.run.name(ident))
        passes = window.named("backward")
        return Example(
            (),
            not twice,
            {},
            variables=tuple(twice),
            expected="one change for each step of the optimizer",
            seen=f"{counted(len(twice), 'weight')} of the copy moved again before the next step" if twice else None,
            call=passes[-1] if passes else None,
            detail="A moving average is updated at every micro-batch instead of every step" if twice else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([(0, 0, 0), (1, 1, 1), (2, 2, 2)])
        yield _run([(0, 0, 1), (1, 1, 2), (2, 2, 3)])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([(0, 1, 2), (3, 4, 5)])


def _run(moves: list[tuple[int, int, int]]) -> list[Window]:
    mini = Mini({"model.weight": {}, "teacher.weight": {"optimizer": -1, "trainable": False}})
    windows = []
    for step, (_, amidst, before) in enumerate(moves):
        held = {"teacher.weight": (1.0, 50 + before)}
        among = {"teacher.weight": (1.0, 50 + amidst)}
        windows.append(
            mini.window(
                "backward",
                ("amidst", among, {"optimizer": -1}),
                "backward",
                ("before", {"model.weight": (1.0 + step, 7 + step)}, {"optimizer": 0}),
                ("before", held, {"optimizer": -1}),
                "step optimizer0:SGD",
            )
        )
    return windows
