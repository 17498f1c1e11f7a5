"""Target networks that are used together follow together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import Copies, untrained
from preflight.monitor.views.fingerprints import looks_of
from preflight.monitor.window import Call, Variable, Window

_LOOKS = 3
_DELAYED = 6
"""And where a network follows after several steps at a time, between which it rests."""
_STEPS = 4
"""As many steps at most, for a network of another rhythm to be seen moving by then."""


class TargetsFollowTogether(Relation):
    """Of two target networks of which one is fed with what the other gives, both follow what they are copies of, or none.

    Actor and critic have a target each, and the second asks what the first would do. Where only one of them is brought on,
    the other goes on to answer as the untrained network did.
    Judged are networks that no optimizer holds, that began as exact copies of two different trained ones, and that are
    called one right after the other without gradients. Broken where the trained ones have moved, one of the copies has
    moved at each of three looks, or at six where it is brought on after two, three or four steps, and the first of them at none. Nothing is said of a network of which another copy moves:
    then one is meant to rest, as a reference does.
    """

    name = "targets-follow-together"
    needs = frozenset({"step", "state", "forward"})
    follows = (looks_of,)
    wakes = frozenset({"exact parameter at before_step"})
    severity = "warning"
    priority = 16
    cause = "the update of the targets leaves one of the networks out"
    advice = "bring all targets on in one place, after each round of steps"

    def __init__(self) -> None:
        self._copies = Copies()
        self._moved: Counter[int] = Counter()
        self._rested: Counter[int] = Counter()
        self._pairs: dict[tuple[str, str], Call] = {}  # networks called one after the other without gradients
        self._attached: set[str] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for look in looks_of(window):
            self._copies.see(look.state)
            self._moved.update(look.moved)
            self._rested.update(look.rested)
        calls = [call for call in window.named("forward") if "." not in call.object]
        self._attached.update(call.object for call in calls if call.context.startswith("grad"))
        self._pairs.update({(one.object, two.object): two for one, two in pairwise(calls) if one.object != two.object})
        roots = self._roots(window)
        for (first, second), call in self._pairs.items() if len(roots) > 1 else ():
            if first in roots and second in roots and not {first, second} & self._attached:
                yield from self._judge(first, second, roots, call, window)

    def _roots(self, window: Window) -> dict[str, tuple[str, list[Variable]]]:
        """Networks that no optimizer holds: of which trained one each is a copy, and its matrices."""
        held: dict[str, list[Variable]] = {}
        for state in untrained(window, "before_step"):
            for ident in state.ids:
                one = window.run.variables.get(ident)
                if one is not None and len(one.shape) > 1:
                    held.setdefault(one.root, []).append(one)
        found = {}
        for root, matrices in held.items():
            origins = [
                {one.root for one in self._copies.originals(matrix.id, window, exact=True)} for matrix in matrices
            ]
            shared = set.intersection(*origins)
            if len(shared) == 1:
                found[root] = shared.pop(), matrices
        return found

    def _follows(self, matrices: list[Variable]) -> bool:
        return all(self._goes_on(self._moved.get(one.id, 0), self._rested.get(one.id, 0)) for one in matrices)

    @staticmethod
    def _goes_on(moved: int, rested: int) -> bool:
        return moved >= (_DELAYED if rested else _LOOKS) and rested <= (_STEPS - 1) * moved

    def _rests(self, matrices: list[Variable]) -> bool:
        return all(self._rested.get(one.id, 0) >= _LOOKS and not self._moved.get(one.id) for one in matrices)

    def _judge(
        self, first: str, second: str, roots: dict[str, tuple[str, list[Variable]]], call: Call, window: Window
    ) -> Iterator[Example]:
        (origin, matrices), (other, following) = roots[first], roots[second]
        if origin == other or not self._follows(following):
            return
        again = any(known == origin and self._follows(held) for root, (known, held) in roots.items() if root != first)
        trained = [one for one in window.run.variables.values() if one.root == origin and len(one.shape) > 1]
        moved = bool(trained) and all(self._moved.get(one.id, 0) for one in trained)
        wrong = self._rests(matrices) and moved and not again
        if not wrong and not self._follows(matrices):
            return
        yield Example(
            (),
            not wrong,
            {},
            variables=(first, *(one.name for one in matrices)) if wrong else (),
            expected=f"a copy that follows {origin} as {second} follows {other}",
            seen="the weights of the beginning" if wrong else None,
            call=call,
            detail=f"{first} does not follow {origin}, and {second}, which is used after it, follows" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(both=True)
        yield _run(both=True, delay=2)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(both=False)
        yield _run(both=False, delay=2)


def _run(both: bool, delay: int = 1) -> list[Window]:
    held = {"actor.weight": {"optimizer": 0}, "critic.weight": {"optimizer": 1}}
    unheld = {name: {"optimizer": -1, "trainable": False} for name in ("slow_actor.weight", "slow_critic.weight")}
    mini = Mini({**held, **unheld})
    asked = [(f"forward {name}", {"context": "nograd"}) for name in ("slow_actor", "slow_critic")]
    windows = []
    for step in range(5 if delay == 1 else 16 * delay):
        brought = step // delay
        own = {"actor.weight": (2.0, 10 + step), "critic.weight": (3.0, 20 + step)}
        late = brought if both else 0
        slow = {"slow_actor.weight": (2.0, 10 + 100 * late), "slow_critic.weight": (3.0, 20 + 100 * brought)}
        rows = (("before", own, {"optimizer": 0}), ("before", slow, {"optimizer": -1}))
        windows.append(mini.window(*asked, "forward critic", "backward", *rows, "step optimizer0:Adam"))
    return windows
