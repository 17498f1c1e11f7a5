"""An average of weights keeps most of what it was."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.copies import untrained
from preflight.monitor.window import State, Window

_MOST = 0.1
"""The share of its past that an average keeps in a step, below which it is none."""
_EXACT = 4e-7
"""How far a norm may be off, as a share of it."""
_CLEAR = 50
"""How many times that a difference of norms must be, to be taken for one."""
_ALIKE = 0.35
_ROUGHLY = 0.6
"""How far the shares of three matrices and more may lie apart: norms tell of a step only nearly, the less the more it turns."""
_INTERVALS = 2
_PAIRS = 2


class AveragesKeepTheirPast(Relation):
    """A network that is moved after a trained one, a little with each step, keeps more than a tenth of what it was.

    Target networks, teachers and averages are made with a decay near 1, or a rate near 0. With the two exchanged, the
    copy is all but the trained network itself after each step: the targets move with what learns from them.
    Judged are matrices that no optimizer holds and that have the name, the shape and the precision of trained ones.
    Before each step their distance from the trained ones is compared, in norms, with what it would be had they not moved.
    A share below a tenth, the same for all of them in two steps in a row, is a decay that was given the wrong way round.
    A copy in every bit has no decay, and one whose share grows from step to step is warmed up.
    """

    name = "averages-keep-their-past"
    needs = frozenset({"step", "state"})
    wakes = frozenset({"exact parameter at before_step"})
    severity = "warning"
    priority = 16
    cause = "the decay of a moving average, or the rate of a target network, is given the wrong way round"
    advice = "keep the average times the decay (0.99, 0.999), and add the new weights times what is left of 1"

    def __init__(self) -> None:
        self._slow: dict[
            int, tuple[float, int | None, int]
        ] = {}  # by variable its norm, fingerprint and the steps done
        self._fast: dict[int, tuple[float, int | None]] = {}
        self._shares: dict[str, list[float]] = {}  # by network, the share kept in each of the last intervals

    def see(self, window: Window) -> Iterator[Example]:
        for state in window.states:
            if state.moment != "before_step" or state.what != "parameter" or not state.bits:
                continue
            if (state.extra or {}).get("optimizer") != -1:
                told = zip(state.ids, state.norm, state.bits, strict=False)
                self._fast.update({ident: (norm, bits) for ident, norm, bits in told if norm})
        for state in untrained(window, "before_step"):
            yield from self._moved(state, window)

    def _moved(self, state: State, window: Window) -> Iterator[Example]:
        found: dict[str, list[tuple[float, float]]] = {}  # by network, shares with how far each may be off
        copies = set()
        trained = {
            (one.name.removeprefix(one.root), tuple(one.shape), one.dtype): one.id
            for one in window.run.variables.values()
            if one.optimizer >= 0 and one.trainable and len(one.shape) > 1
        }
        for ident, norm, bits in zip(state.ids, state.norm, state.bits or (), strict=False):
            one = window.run.variables.get(ident)
            if one is None or not norm or len(one.shape) < 2:
                continue
            before = self._slow.get(ident)
            self._slow[ident] = norm, bits, state.s
            followed = trained.get((one.name.removeprefix(one.root), tuple(one.shape), one.dtype))
            if followed is None or followed not in self._fast or before is None or state.s != before[2] + 1:
                continue
            fast, other = self._fast[followed]
            if bits == other or bits == before[1]:
                copies.add(one.root)
            elif abs(before[0] - fast) > _CLEAR * _EXACT * norm:
                apart = before[0] - fast
                found.setdefault(one.root, []).append(((norm - fast) / apart, _EXACT * norm / abs(apart)))
        for root in sorted({*found, *copies}):
            shares = found.get(root, [])
            if root in copies or len(shares) < _PAIRS:
                self._shares.pop(root, None)
                yield Example((), True, {})
            else:
                yield self._judge(root, shares, window)

    def _judge(self, root: str, shares: list[tuple[float, float]], window: Window) -> Example:
        middle = median(share for share, _ in shares)
        known = self._shares.setdefault(root, [])
        apart = _ROUGHLY if len(shares) > _PAIRS else _ALIKE
        one = 0 < middle < _MOST and all(_alike(share, middle, off, apart) for share, off in shares)
        if not one or (known and not _alike(middle, known[-1], shares[0][1])):
            known.clear()
        if one:
            known.append(middle)
        wrong = len(known) >= _INTERVALS
        steps = window.named("step")
        return Example(
            (),
            not wrong,
            {},
            variables=(root,) if wrong else (),
            expected="an average that keeps most of what it was",
            seen=f"it keeps {middle:.1%} of itself in each step" if wrong else None,
            call=steps[-1] if steps else None,
            detail=f"{root} follows a trained network so closely that it averages nothing" if wrong else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([0.99, 0.99, 0.99])
        yield _run([0.5, 0.5, 0.5])
        yield _run([0.0, 0.0, 0.0])  # copied
        yield _run([0.004, 0.04, 0.1])  # warmed up

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([0.01, 0.01, 0.01])


def _alike(share: float, other: float, off: float, apart: float = _ALIKE) -> bool:
    return abs(share - other) <= apart * abs(other) + 2 * off


def _run(decays: list[float]) -> list[Window]:
    names = ("online.0.weight", "online.2.weight")
    unheld = {name.replace("online", "target"): {"optimizer": -1, "trainable": False} for name in names}
    mini = Mini({**{name: {} for name in names}, **unheld})
    slow = dict(zip(unheld, (5.0, 7.0), strict=True))
    windows = []
    for step, decay in enumerate([0.0, *decays]):
        fast = {name: 5.0 + 2.0 * at + 0.01 * step for at, name in enumerate(names)}
        for name, target in zip(names, unheld, strict=True):
            slow[target] = decay * slow[target] + (1 - decay) * fast[name]
        own = {name: (norm, int(norm * 1e9)) for name, norm in fast.items()}
        held = {name: (norm, int(norm * 1e9)) for name, norm in slow.items()}
        windows.append(
            mini.window(
                "backward",
                ("before", own, {"optimizer": 0}),
                ("before", held, {"optimizer": -1}),
                "step optimizer0:SGD",
            )
        )
    return windows
