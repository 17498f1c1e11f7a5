"""What the monitor saw, beside what the logs tell."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight import diagnose
from preflight.investigate.beside.watched import causes_of, with_watched
from preflight.vocabulary.finding import Fix, Location
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.invariant import Violation
from preflight.vocabulary.report import SCHEMA, Report, Tool
from preflight.vocabulary.watched import Watched


def _alarm(relation: str = "gradients-cleared", step: int = 1, **more: Any) -> Violation:
    told: dict[str, Any] = {
        "severity": "error", "confidence": "certain", "category": "usercode", "ranks": (0,), "variables": ("head.weight",),
        "cause": "zero_grad is missing", "fix": Fix(title="clear the gradients"), "group": 0, **more,
    }  # fmt: skip
    return Violation(
        rule=relation, code=relation, invariant=relation, relation=relation, message=f"{relation} does not hold",
        location=Location(path="train.py", line=9), first_step=step, **told,
    )  # fmt: skip


def _watched(*alarms: Violation, world: int = 1) -> Report:
    return Report(
        schema=SCHEMA, command="monitor check", tool=Tool("preflight", "0"), verdict="NO-GO" if alarms else "GO",
        inputs={"path": "trace"}, violations=alarms, watched=Watched(in_force=80, judged=40, world_size=world),
    )  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    folder = tmp_path_factory.mktemp("logs")
    lines = {
        "calm": [f"step {n} loss {3 - n / 50:.3f}" for n in range(50)],
        "numbers": [f"step {n} loss {4 * 3.0**n if n < 14 else math.nan:.4f}" for n in range(40)],
        "memory": (Path(__file__).parents[3] / "examples" / "incidents" / "out-of-memory.log").read_text().splitlines(),
    }
    found = {}
    for name, text in lines.items():
        (folder / f"{name}.log").write_text("\n".join(text) + "\n")
        found[name] = diagnose(str(folder / f"{name}.log"))
    return found


def _incident(report: Report) -> Incident:
    assert report.incident is not None
    return report.incident


def test_a_run_that_ended_well_and_broke_an_invariant_has_a_silent_error(logs: dict[str, Report]) -> None:
    assert logs["calm"].verdict == "GO"
    report = with_watched(logs["calm"], _watched(_alarm()), "trace")
    incident = _incident(report)
    assert (report.verdict, incident.category, incident.root_category, incident.symptom_category) == (
        "NO-GO", "usercode", "usercode", None,
    )  # fmt: skip
    assert incident.first_failure is not None
    assert (incident.first_failure.path, incident.first_failure.line, incident.first_failure.step) == ("train.py", 9, 1)
    assert [(one.kind, one.id) for one in incident.caught_by] == [("relation", "gradients-cleared")]
    assert [one.known for one in incident.five_whys] == ["observed", "inferred", "unknown"]
    assert math.isclose(sum(one.probability for one in incident.hypotheses), 1.0)
    assert report.violations[0].relation == "gradients-cleared"
    assert incident.next[0].text == "clear the gradients"


def test_numbers_that_went_wrong_have_the_alarm_before_as_their_cause(logs: dict[str, Report]) -> None:
    before = _incident(logs["numbers"])
    assert before.category == "numerical"
    later = _alarm("loss-finite", 14, category="numerical", group=1)
    incident = _incident(with_watched(logs["numbers"], _watched(_alarm(), later), "trace"))
    assert (incident.category, incident.symptom_category) == ("usercode", "numerical")
    assert incident.hypotheses[0].cause == "gradients-cleared"
    assert math.isclose(sum(one.probability for one in incident.hypotheses), 1.0)
    assert [one.answer for one in incident.five_whys[:1]] == [one.answer for one in before.five_whys[:1]]
    assert {"gradients-cleared", "loss-finite"} <= {one.id for one in incident.caught_by}


def test_an_alarm_that_came_afterwards_is_no_cause(logs: dict[str, Report]) -> None:
    report = with_watched(logs["numbers"], _watched(_alarm(step=39)), "trace")
    assert _incident(report) == _incident(logs["numbers"])
    assert any("does not explain this failure" in note for note in report.notes)


def test_a_symptom_alone_tells_when_and_not_why(logs: dict[str, Report]) -> None:
    alarm = _alarm("loss-finite", 14, category="numerical")
    before, incident = (
        _incident(logs["numbers"]),
        _incident(with_watched(logs["numbers"], _watched(alarm), "trace")),
    )
    assert (incident.category, incident.headline, incident.hypotheses) == (
        before.category, before.headline, before.hypotheses,
    )  # fmt: skip
    assert incident.caught_by[0].id == "loss-finite"


def test_an_alarm_explains_no_failure_of_another_kind(logs: dict[str, Report]) -> None:
    report = with_watched(logs["memory"], _watched(_alarm()), "trace")
    assert _incident(report) == _incident(logs["memory"])
    assert report.violations  # and is shown


def test_a_warning_does_not_make_a_healthy_run_sick(logs: dict[str, Report]) -> None:
    report = with_watched(logs["calm"], _watched(_alarm(severity="warning")), "trace")
    assert report.verdict == "GO"


def test_a_watched_run_without_alarms_is_said(logs: dict[str, Report]) -> None:
    report = with_watched(logs["numbers"], _watched(), "trace")
    assert report.incident == logs["numbers"].incident
    assert report.notes[-1] == "preflight monitor found nothing in trace: 40 of 80 invariants could be judged"


@pytest.mark.parametrize(
    ("ranks", "world", "culprits", "scope"),
    [((2,), 4, (2,), "rank"), ((0, 1, 2, 3), 4, (), "all"), ((0,), 1, (), "all")],
)
def test_ranks_are_blamed_where_not_all_show_it(
    logs: dict[str, Report], ranks: tuple[int, ...], world: int, culprits: tuple[int, ...], scope: str
) -> None:
    calm = msgspec.structs.replace(
        logs["calm"], incident=msgspec.structs.replace(_incident(logs["calm"]), world_size=None)
    )
    incident = _incident(with_watched(calm, _watched(_alarm(ranks=ranks), world=world), "trace"))
    assert (incident.culprit.ranks, incident.scope) == (culprits, scope)


def test_causes_come_before_symptoms_and_errors_before_warnings(logs: dict[str, Report]) -> None:
    alarms = [
        _alarm("loss-finite", 3, category="numerical"),
        _alarm("loss-in-range", 2, category="numerical", severity="warning"),
        _alarm("epochs-shuffled", 1, category="data", severity="warning"),
        _alarm("training-mode", 5),
    ]
    order = [one.relation for one in causes_of(_incident(logs["numbers"]), alarms)]
    assert order == ["training-mode", "epochs-shuffled", "loss-finite", "loss-in-range"]
