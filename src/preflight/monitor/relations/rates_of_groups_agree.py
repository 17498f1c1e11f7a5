"""The rates of an optimizer's groups begin and go on together."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import ORDER, Call, Number, Window

_FALL = 0.5
_CLOSE = 1e-6
_STAYED = 3


class RatesOfGroupsAgree(Relation):
    """Groups that one schedule moves together are not apart at the first step, and none that comes later is left behind.

    A schedule that sets the first rate of one group only leaves the others at the rate they were made with: where a warm-up
    begins near zero, they take their first step at the full rate and fall to the others at the second.
    Judged at the third step: where the rates of two groups change by the same factor from the second to the third, but
    one of them rose and the other fell to less than half from the first to the second.
    A group that is added when training has begun, as where a frozen part thaws, may be unknown to the schedule: it keeps the
    rate that it was given, while the rates of all others change with each step of the schedule, three times in a row.
    """

    name = "rates-of-groups-agree"
    needs = frozenset({"step", "scalar"})
    wakes = frozenset({"step", "scalar lr"})
    repeats = 5
    looks = frozenset({"step", "rates"})
    whole = False
    priority = 24
    cause = (
        "the schedule writes its rates into the first group only, or into the groups that were there when it was made"
    )
    advice = "add groups before the schedule is made, or make it anew, and print the rates of all groups"

    def __init__(self) -> None:
        self._now: dict[str, dict[str, float]] = {}
        self._steps: dict[str, list[dict[str, float]]] = {}
        self._left: dict[str, tuple[dict[str, float], int]] = {}  # rates at the last step, and how often one stayed

    def see(self, window: Window) -> Iterator[Example]:
        events: list[Call | Number] = [*(one for one in window.numbers if one.name == "lr"), *window.named("step")]
        for event in sorted(events, key=ORDER):
            if not isinstance(event, Call):
                name, _, group = event.object.rpartition(".")
                if event.value is not None:
                    self._now.setdefault(name, {})[group] = event.value
                continue
            yield from self._added(event)
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

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run([(0.0, 1.0), (0.1, 0.1), (0.2, 0.2)])
        yield _run([(1.0,), (0.9,), (0.8, 0.8), (0.7, 0.8), (0.6, 0.8), (0.5, 0.8)])


def _run(rates: list[tuple[float, ...]]) -> list[Window]:
    mini = Mini({"model.weight": {}, "model.bias": {"group": 1}})
    return [
        mini.window(
            "backward",
            *(("scalar", "lr", f"optimizer0:SGD.{group}", rate) for group, rate in enumerate(pair)),
            "step optimizer0:SGD",
        )
        for pair in rates
    ]
