"""What began together is one alarm, also where a part of it can only be told later."""

from __future__ import annotations

from preflight.monitor.judging.grouping import Groups
from preflight.monitor.library_of import shipped
from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, relations
from preflight.monitor.window import Window


def windows(count: int) -> list[Window]:
    mini = Mini({"model.weight": {}})
    return [mini.window("step optimizer0:SGD") for _ in range(count)]


def add(groups: Groups, name: str, window: Window, began: int | None = None) -> int:
    """Add what breaks a relation of the library; return the group that it came to."""
    invariant = next(one for one in shipped() if one.relation == name)
    violation = groups.add(relations()[name], invariant, Example((), False, {}, began=began), window)
    assert violation is not None
    return violation.group


def test_what_is_told_late_belongs_to_what_began_with_it() -> None:
    seen = windows(40)
    groups = Groups()
    assert add(groups, "replicas-equal", seen[10]) == 1
    assert add(groups, "step-updates", seen[20]) == 2
    assert add(groups, "weights-between-steps", seen[30], began=11) == 1
    assert [one.relation for one in groups.violations()][2] == "step-updates"


def test_what_is_told_late_and_began_alone_is_an_alarm_of_its_own() -> None:
    seen = windows(40)
    groups = Groups()
    assert add(groups, "replicas-equal", seen[10]) == 1
    assert add(groups, "weights-between-steps", seen[30], began=20) == 2
    assert add(groups, "step-updates", seen[31]) == 2
