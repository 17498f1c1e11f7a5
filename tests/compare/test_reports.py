"""What is the same between two reports, and what is not."""

from __future__ import annotations

import msgspec
import pytest

from preflight.compare.reports import compare
from preflight.vocabulary.comparison import Change
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Finding, Location
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.quantity import Interval
from preflight.vocabulary.report import SCHEMA, Report, Tool
from preflight.vocabulary.watched import Series, Watched


def report(**more: object) -> Report:
    return msgspec.structs.replace(
        Report(schema=SCHEMA, command="check", tool=Tool("preflight", "1"), verdict="GO"), **more
    )


def finding(message: str, code: str = "EFF002", line: int = 1, severity: str = "warning") -> Finding:
    return Finding("some-rule", code, severity, "certain", message, Location("a.py", line))  # type: ignore[arg-type]


def memory(peak: float) -> MemoryEstimate:
    return MemoryEstimate(peak_bytes=Interval(peak, peak, peak))


def test_a_report_does_not_differ_from_itself() -> None:
    one = report(findings=(finding("x"),), memory=memory(1e9), facts={"steps": Fact(5)})
    found = compare(one, one, ("a", "b"))
    assert found.verdict == "GO"
    assert found.comparison is not None
    assert (found.comparison.changes, found.comparison.new, found.comparison.gone) == ((), (), ())
    assert found.comparison.kept == 1
    assert set(found.comparison.shared) == {"memory", "setting"}


def test_a_finding_that_moved_or_has_other_numbers_is_the_same_one() -> None:
    before = report(findings=(finding("needs 47.1 GiB", line=3), finding("needs 47.1 GiB", line=9)))
    after = report(findings=(finding("needs 39 GiB", line=8), finding("another")))
    found = compare(before, after, ("a", "b")).comparison
    assert found is not None
    assert found.kept == 1
    assert [one.message for one in found.new] == ["another"]
    assert [one.location.line for one in found.gone] == [9]  # of two that are alike, one is left


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (report(memory=memory(1)), report(memory=memory(2)), "GO"),  # more memory is no error
        (report(memory=memory(1)), report(memory=memory(1), findings=(finding("x", severity="error"),)), "NO-GO"),
        (report(findings=(finding("x", severity="error"),)), report(findings=(finding("x", severity="error"),)), "GO"),
        (report(memory=memory(1)), report(memory=memory(1), verdict="NO-GO"), "NO-GO"),
        (report(memory=memory(1), verdict="NO-GO"), report(memory=memory(1)), "GO"),
        (report(memory=memory(1)), report(facts={"steps": Fact(5)}), "UNKNOWN"),  # nothing in common
    ],
)
def test_the_verdict_is_about_what_became_worse(before: Report, after: Report, verdict: str) -> None:
    assert compare(before, after, ("a", "b")).verdict == verdict


def test_findings_of_another_kind_of_report_are_neither_gone_nor_new() -> None:
    script = report(memory=memory(4e9), findings=(finding("x", severity="error"),), verdict="NO-GO")
    plan = report(command="plan", memory=memory(4e9), findings=(finding("y", severity="error"),), verdict="NO-GO")
    found = compare(script, plan, ("train.py", "plan.json"))
    assert found.comparison is not None
    assert (found.comparison.gone, found.comparison.new, found.comparison.kept) == ((), (), 0)
    assert found.verdict == "GO"
    assert "findings are not compared" in found.notes[0]
    logs = report(command="investigate", verdict="NO-GO")
    assert compare(report(command="monitor check", findings=script.findings), logs, ("a", "b")).verdict == "UNKNOWN"
    quick = msgspec.structs.replace(script, command="quick")
    assert compare(script, quick, ("a", "b")).notes == ()


def test_the_steps_of_a_run_meet_those_of_its_plan() -> None:
    plan = report(command="plan", step={"seconds": {"mid": 0.1}, "mfu": 0.4})
    series = Series(name="step time", unit="s", steps=tuple(range(20)), values=(0.2,) * 20)
    run = report(command="monitor check", watched=Watched(steps=20, series=(series,)))
    found = compare(plan, run, ("plan.json", "trace")).comparison
    assert found is not None
    assert [(one.name, one.before, one.after) for one in found.changes] == [("step", 0.1, 0.2)]


def test_folders_whose_scripts_are_alike_have_much_in_common() -> None:
    folder = report(scripts=(report(), report()))
    assert compare(folder, folder, ("a", "b")).verdict == "GO"


def test_only_what_both_tell_of_is_compared() -> None:
    before = report(memory=memory(4e9), facts={"steps": Fact(5), "precision": Fact(None, reason="not known")})
    after = report(memory=memory(2e9))
    found = compare(before, after, ("a", "b")).comparison
    assert found is not None
    assert found.shared == ("memory",)
    assert [(one.name, one.before, one.after, one.worse) for one in found.changes] == [
        ("peak (allocated)", 4e9, 2e9, False)
    ]


def test_of_a_watched_run_the_first_step_times_do_not_count() -> None:
    def watched(seconds: float) -> Report:
        times = (9.0, 9.0) + (seconds,) * 18
        series = Series(name="step time", unit="s", steps=tuple(range(20)), values=times)
        return report(watched=Watched(steps=20, series=(series,)))

    found = compare(watched(0.1), watched(0.2), ("a", "b")).comparison
    assert found is not None
    assert [(one.name, one.before, one.after, one.worse) for one in found.changes] == [("step, median", 0.1, 0.2, True)]


@pytest.mark.parametrize(
    ("before", "after", "better", "ratio", "worse"),
    [
        (2.0, 3.0, "lower", 1.5, True), (2.0, 3.0, "higher", 1.5, False), (0.0, 3.0, "lower", None, True),
        ("no", "yes", None, None, False), (False, True, "higher", None, False), (None, 3.0, "lower", None, False),
    ],
)  # fmt: skip
def test_a_change(before: object, after: object, better: object, ratio: float | None, worse: bool) -> None:
    one = Change(aspect="memory", name="x", before=before, after=after, better=better)  # type: ignore[arg-type]
    assert (one.ratio, one.worse) == (ratio, worse)
