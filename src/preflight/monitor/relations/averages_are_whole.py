"""A network that follows another does so in all its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import Copies, is_trained
from preflight.monitor.views.fingerprints import looks_of
from preflight.monitor.window import State, Window
from preflight.vocabulary.counted import counted

_INTERVALS = 2


class AveragesAreWhole(Relation):
    """Of a copy that the program moves after the weights it was made from, no part stays behind.

    Momentum encoders, target networks and averages of weights begin as copies of trained weights and are moved by the
    program itself. Where it leaves a part out (a projection head that was added later), that part keeps its first values,
    and what comes out of the copy no longer belongs together.
    Judged are matrices that no optimizer steps and that had every bit of a trained one before the first step: where the
    trained one moves, none of its copies does, and other copies of the same model move each time.
    A frozen teacher and a reference model rest as a whole and are not meant.
    """

    name = "averages-are-whole"
    needs = frozenset({"step", "state"})
    follows = (looks_of,)
    wakes = frozenset({"exact parameter at before_step"})
    priority = 14
    cause = "the update of the average goes over a list of modules or parameters in which a part is missing"
    advice = "update the average over all parameters of the model that it copies, the heads included"

    def __init__(self) -> None:
        self._copies = Copies()
        self._seen: Counter[int] = Counter()
        self._moved: Counter[int] = Counter()
        # Variables, at which change of them they were looked at, and those of them that no optimizer steps.
        self._resting: tuple[list[int], int, list[int]] = [], -1, []

    def see(self, window: Window) -> Iterator[Example]:
        for look in looks_of(window):
            self._copies.see(look.state)
            self._seen.update(look.moved)
            self._seen.update(look.rested)
            self._moved.update(look.moved)
        for state in window.states:
            if state.moment == "before_step" and state.what == "parameter" and state.bits:
                yield from self._judge(state, window)

    def _judge(self, state: State, window: Window) -> Iterator[Example]:
        known = [ident for ident in self._rest(state.ids, window) if self._seen.get(ident, 0) >= _INTERVALS]
        moving = [ident for ident in known if self._moves(ident) and self._copies.originals(ident, window, exact=False)]
        if not moving:
            return
        roots: dict[str, set[int]] = {}
        followed: set[int] = set()
        for ident in moving:
            root = window.run.variables[ident].root
            for original in self._copies.originals(ident, window, exact=False):
                followed.add(original.id)
                roots.setdefault(root, set()).add(original.optimizer)
        behind = []
        for ident in known:
            one = window.run.variables.get(ident)
            if one is None or self._moved.get(ident, 0) or one.root not in roots:
                continue
            originals = self._copies.originals(ident, window, exact=True)
            meant = [two for two in originals if two.optimizer in roots[one.root] and self._moves(two.id)]
            if meant and not any(two.id in followed for two in originals):
                behind.append(one.name)
        steps = window.named("step")
        yield Example(
            (),
            not behind,
            {},
            variables=tuple(behind),
            expected="all weights of the copy move when those they were copied from do",
            seen=f"first values in {counted(len(behind), 'weight')} of the copy, and new ones in {counted(len(moving), 'other')}"
            if behind
            else None,
            call=steps[-1] if steps else None,
            detail="A part of a network that follows another is left behind" if behind else "",
        )

    def _rest(self, ids: list[int], window: Window) -> list[int]:
        """Those of some variables that no optimizer steps."""
        variables = window.run.variables
        if self._resting[0] != ids or self._resting[1] != variables.changes:
            resting = [ident for ident in ids if ident in variables and not is_trained(variables[ident])]
            self._resting = ids, variables.changes, resting
        return self._resting[2]

    def _moves(self, ident: int) -> bool:
        return self._seen.get(ident, 0) >= _INTERVALS and self._moved.get(ident, 0) == self._seen[ident]

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(body=True, head=True)
        yield _run(body=True, head=True)[:4]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(body=True, head=False)
        yield _run(body=True, head=False, held=True)


def _run(body: bool, head: bool, held: bool = False) -> list[Window]:
    """Five steps in which copies of a body and of a head move or not; ``held`` where the optimizer was given them, too."""
    mini = Mini(
        {
            "model.body.weight": {},
            "model.head.weight": {},
            "model.slow_body.weight": {"optimizer": 0 if held else -1, "trainable": False},
            "model.slow_head.weight": {"optimizer": 0 if held else -1, "trainable": False},
        }
    )
    windows = []
    for step in range(5):
        own = {"model.body.weight": (1.0 + step, 10 + step), "model.head.weight": (2.0 + step, 20 + step)}
        slow = {
            "model.slow_body.weight": (1.0 + body * step / 9, 10 + 100 * body * step),
            "model.slow_head.weight": (2.0 + head * step / 9, 20 + 100 * head * step),
        }
        apart = (("before", own, {"optimizer": 0}), ("before", slow, {"optimizer": -1}))
        rows = (("before", own | slow, {"optimizer": 0}),) if held else apart
        windows.append(mini.window("backward", *rows, "step optimizer0:SGD"))
    return windows
