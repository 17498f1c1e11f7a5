"""The rates of an optimizer's groups begin and go on together."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Number, Window

_FALL = 0.5
_CLOSE = 1e-6
_STAYED = 3


class _Hand:
    """The rates of one optimizer's groups from step to step, where no schedule is known.

    Attributes:
        rates: Those of the last step.
        rows: By group, how many times in a row the rate has changed; -1 once it stayed after a change.
        met: Pairs of a group that never moved and one that does, which were at the same rate once.
    """

    def __init__(self, rates: dict[str, float], rows: dict[str, int], met: set[tuple[str, str]]) -> None:
        self.rates, self.rows, self.met = rates, rows, met

    def moves(self) -> bool:
        """Whether some rate has changed often enough to be judged."""
        return any(count >= _STAYED for count in self.rows.values())

    def see(self, rates: dict[str, float], marked: frozenset[str]) -> tuple[str, str] | None:
        """Take in the rates of a step; a group that was left and one that was moved, where there are such.

        Of two groups that the program tells apart by a mark of its own, the one may be left on purpose.
        """
        for group, rate in rates.items():
            changed = self.rates.get(group) != rate
            count = self.rows.get(group, -1)
            self.rows[group] = count + 1 if changed and count >= 0 else count if not count else -1
        self.rates = dict(rates)
        moving = [group for group, count in self.rows.items() if count > 0]
        for still in (group for group, count in self.rows.items() if not count):
            for group in moving or self.rows:
                if group != still and rates.get(group) == rates.get(still) != 0 and group in rates:
                    self.met.add((still, group))
        alike = ((still, moved) for still, moved in self.met if (still in marked) == (moved in marked))
        return min((pair for pair in alike if not self.rows[pair[0]] and self.rows[pair[1]] >= _STAYED), default=None)


class RatesOfGroupsAgree(Relation):
    """Groups that one schedule moves together are not apart at the first step, and none that comes later is left behind.

    A schedule that sets the first rate of one group only leaves the others at the rate they were made with: where a warm-up
    begins near zero, they take their first step at the full rate and fall to the others at the second.
    Judged at the third step: where the rates of two groups change by the same factor from the second to the third, but
    one of them rose and the other fell to less than half from the first to the second.
    A program that sets the rate itself may do so for the first group only: of two groups that are at the same rate at some
    step, the one has another rate at each step of the first ones and the other always the same. Judged where no schedule
    of torch advances and a rate has changed three times in a row; two groups that never meet were given rates of their own,
    and of two that an option of the program tells apart, as ``fix_lr=True``, the one is meant to stay. Who warms up one part
    beside a new one on purpose may do the same without a mark, and so it is a warning.
    A group that is added when training has begun, as where a frozen part thaws, may be unknown to the schedule: it keeps the
    rate that it was given, while the rates of all others change with each step of the schedule, three times in a row.
    """

    name = "rates-of-groups-agree"
    needs = frozenset({"step", "scalar", "scheduler.step"})
    wakes = frozenset({"step", "scalar lr", "scheduler.step"})
    repeats = 5
    looks = frozenset({"step", "rates", "scheduler.step"})
    whole = False
    severity = "warning"
    priority = 24
    cause = (
        "the schedule writes its rates into the first group only, or into the groups that were there when it was made"
    )
    advice = "add groups before the schedule is made, or make it anew, and print the rates of all groups"

    def __init__(self) -> None:
        self._now: dict[str, dict[str, float]] = {}
        self._steps: dict[str, list[dict[str, float]]] = {}
        self._left: dict[str, tuple[dict[str, float], int]] = {}  # rates at the last step, and how often one stayed
        self._scheduled = False
        self._hands: dict[str, _Hand] = {}

    def see(self, window: Window) -> Iterator[Example]:
        self._scheduled = self._scheduled or bool(window.named("scheduler.step"))
        events: list[Call | Number] = [*(one for one in window.numbers if one.name == "lr"), *window.named("step")]
        for event in sorted(events, key=ORDER):
            if not isinstance(event, Call):
                name, _, group = event.object.rpartition(".")
                if event.value is not None:
                    self._now.setdefault(name, {})[group] = event.value
                continue
            yield from self._added(event)
            yield from self._by_hand(event)
            known = self._steps.setdefault(event.object, [])
            if len(known) < 3:
                known.append(dict(self._now.get(event.object, {})))
                if len(known) == 3:
                    yield from self._judge(event, known)

    def _added(self, step: Call) -> Iterator[Example]:
        """Whether a group that came later keeps its rate while those of all groups of the beginning change."""
        rates = dict(self._now.get(step.object, {}))
        first = self._steps.get(step.object) or [rates]
        late = [group for group in rates if group not in first[0]]
        if not late:
            return
        before, stayed = self._left.get(step.object, ({}, 0))
        alike = [group for group in late if before.get(group) == rates[group] != 0]
        moved = all(before.get(group) != rates[group] for group in rates if group not in late)
        stayed = stayed + 1 if alike and moved else 0
        self._left[step.object] = rates, stayed
        wrong = stayed >= _STAYED
        yield Example(
            (),
            not wrong,
            {"optimizer": step.object.split(":")[-1]},
            variables=("lr", *(f"{step.object} group {group}" for group in alike)) if wrong else (),
            expected="a rate that the schedule changes like those of the other groups",
            seen=f"a rate of {rates[alike[0]]:g} that stays while the others change" if wrong else None,
            call=step,
            detail="A group that was added later is left out by the schedule" if wrong else "",
        )

    def _by_hand(self, step: Call) -> Iterator[Example]:
        """Whether the program moves the rate of some groups, and of others that are at the same rate once does not."""
        rates = self._now.get(step.object, {})
        if len(rates) < 2 or self._scheduled:
            return
        hand = self._hands.get(step.object)
        if hand is None:
            hand = self._hands[step.object] = _Hand(dict(rates), dict.fromkeys(rates, 0), set())
        marked = frozenset(str(group) for group in (step.args or {}).get("marked", ()))
        apart = hand.see(rates, marked)
        if not hand.moves() and not apart:
            return
        still, moving = apart if apart else ("", "")
        yield Example(
            (),
            not apart,
            {"optimizer": step.object.split(":")[-1]},
            variables=("lr", f"{step.object} group {still}") if apart else (),
            expected=f"a rate that is set together with that of group {moving}" if apart else None,
            seen=f"a rate of {rates[still]:g} that stays while the other changes at every step" if apart else None,
            call=step,
            detail="The program sets the rate of some groups only" if apart else "",
        )

    @staticmethod
    def _judge(step: Call, known: list[dict[str, float]]) -> Iterator[Example]:
        first, second, third = known
        groups = [group for group in first if second.get(group, 0.0) > 0 and group in third]
        rose = [group for group in groups if first[group] < second[group]]
        fell = [group for group in groups if second[group] < _FALL * first[group]]
        factor = {group: third[group] / second[group] for group in groups}
        apart = [
            group
            for group in fell
            if any(abs(factor[group] - factor[other]) <= _CLOSE * factor[other] != 0.0 for other in rose)
        ]
        if len(groups) < 2:
            return
        names = tuple(f"{step.object} group {group}" for group in apart)
        yield Example(
            (),
            not apart,
            {"optimizer": step.object.split(":")[-1]},
            variables=("lr", *names) if names else (),
            expected="rates that begin together, as they go on together",
            seen=", ".join(f"group {group}: {first[group]:g}, then {second[group]:g}" for group in apart) or None,
            call=step,
            detail="A group took its first step at a rate that the schedule had not set" if apart else "",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run([(0.0, 0.0), (0.1, 0.1), (0.2, 0.2)])
        yield _run([(0.0, 1.0), (0.1, 0.99), (0.2, 0.98)])
        yield _run([(1.0, 0.0), (0.9, 0.1), (0.8, 0.1)])
        yield _run([(1.0,), (0.9,), (0.8, 0.8), (0.7, 0.7), (0.6, 0.6), (0.5, 0.5)])
        yield _run([(1.0, 3.0), (0.9, 3.0), (0.8, 3.0), (0.7, 3.0)])
        yield _run([(1.0, 1.0), (0.9, 1.0), (0.8, 1.0), (0.7, 1.0)], marked=[1])

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([(0.0, 1.0), (0.1, 0.1), (0.2, 0.2)])
        yield _run([(1.0,), (0.9,), (0.8, 0.8), (0.7, 0.8), (0.6, 0.8), (0.5, 0.8)])
        yield _run([(1.0, 1.0), (0.9, 1.0), (0.8, 1.0), (0.7, 1.0)])
        yield _run([(1.0, 1.0, 1.0), (0.9, 1.0, 1.0), (0.8, 1.0, 1.0), (0.7, 1.0, 1.0)], marked=[2])


def _run(rates: list[tuple[float, ...]], marked: list[int] | None = None) -> list[Window]:
    mini = Mini({"model.weight": {}, "model.bias": {"group": 1}})
    more = {"args": {"marked": marked}} if marked else {}
    return [
        mini.window(
            "backward",
            *(("scalar", "lr", f"optimizer0:SGD.{group}", rate) for group, rate in enumerate(pair)),
            ("step optimizer0:SGD", more),
        )
        for pair in rates
    ]
