"""The reports of a run put together."""

from __future__ import annotations

import msgspec
import pytest

from preflight.compare.life import life_of
from preflight.report.parts.life_rows import stage_rows
from preflight.vocabulary.finding import Finding, Location
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.quantity import Interval
from preflight.vocabulary.report import SCHEMA, Report, Stage, Tool
from preflight.vocabulary.watched import HeldMemory, Series, Watched

WRONG = Finding("some-rule", "EFF002", "error", "certain", "wrong", Location("a.py", 1))


def report(command: str, verdict: str = "GO", **more: object) -> Report:
    made = Report(schema=SCHEMA, command=command, tool=Tool("preflight", "1"), verdict="GO")
    return msgspec.structs.replace(made, verdict=verdict, **more)


def life(*reports: Report) -> Report:
    stages = [Stage(number=at, time=60.0 * at, words=("preflight",), report=one) for at, one in enumerate(reports, 1)]
    return life_of(".preflight", stages)


@pytest.mark.parametrize(
    ("reports", "verdict"),
    [
        ((report("check", "NO-GO"), report("check")), "GO"),
        ((report("check"), report("check", "NO-GO")), "NO-GO"),
        ((report("check", "NO-GO"), report("plan")), "NO-GO"),
        ((report("check"), report("plan", "UNKNOWN")), "UNKNOWN"),
        ((report("monitor run", "NO-GO"), report("monitor check")), "GO"),
        ((report("investigate", "NO-GO"), report("investigate verify")), "GO"),  # mended, and shown to be
        ((report("investigate", "NO-GO"), report("investigate doctor")), "NO-GO"),
    ],
)
def test_the_newest_of_each_kind_decides(reports: tuple[Report, ...], verdict: str) -> None:
    assert life(*reports).verdict == verdict


def test_a_rehearsal_decides_nothing_and_says_so() -> None:
    real = report("investigate probe", inputs={"subject": "network on 4 ranks"})
    made = report(
        "investigate probe", "NO-GO", findings=(WRONG,), inputs={"injected": ["slow-rank=1"], "subject": "4 ranks"}
    )
    found = life(real, made)
    assert (found.verdict, found.findings) == ("GO", ())
    assert found.life is not None
    assert [stage.latest for stage in found.life.stages] == [True, False]
    told = [row[3] for row in stage_rows(found.life)]
    assert told[1].startswith("rehearsal, slow-rank=1 injected: 4 ranks")
    assert "rehearsal" not in told[0]
    assert life(made).verdict == "UNKNOWN"


def test_findings_are_those_of_the_newest() -> None:
    found = life(report("check", "NO-GO", findings=(WRONG,)), report("check"))
    assert found.findings == ()
    assert found.life is not None
    assert [stage.latest for stage in found.life.stages] == [False, True]


def test_what_was_read_and_what_a_dry_run_saw_stand_beside_each_other() -> None:
    def memory(peak: float, method: str) -> MemoryEstimate:
        return MemoryEstimate(peak_bytes=Interval(peak * 0.9, peak, peak * 1.1), method=method)  # type: ignore[arg-type]

    found = life(report("check", memory=memory(1e9, "static")), report("check", memory=memory(2e9, "dry-run")))
    assert found.life is not None
    (figure,) = found.life.figures
    assert (figure.name, figure.unit) == ("peak (allocated)", "bytes")
    assert [(one.command, one.value) for one in figure.told] == [("check", 1e9), ("check (dry run)", 2e9)]


def test_the_step_that_was_planned_beside_the_one_that_was_seen() -> None:
    planned = report("plan", step={"seconds": {"low": 0.1, "mid": 0.2, "high": 0.4}})
    times = Series(name="step time", unit="s", steps=tuple(range(10)), values=(3.0,) + (0.3,) * 9)
    found = life(planned, report("monitor run", watched=Watched(steps=10, series=(times,))))
    assert found.life is not None
    (figure,) = found.life.figures
    assert [(one.value, one.measured, one.low) for one in figure.told] == [(0.2, False, 0.1), (0.3, True, None)]


def test_the_memory_that_was_foretold_beside_the_most_that_was_held() -> None:
    foretold = report("check", memory=MemoryEstimate(peak_bytes=Interval(9e9, 10e9, 11e9), method="static"))
    held = tuple(
        HeldMemory(rank=rank, device="cuda:0", peak_bytes=(11 + rank) * 10**9, peak_reserved_bytes=13 * 10**9)
        for rank in (0, 1)
    )
    found = life(foretold, report("monitor run", watched=Watched(steps=10, memory=held)))
    assert found.life is not None
    (figure,) = found.life.figures
    assert figure.name == "peak (allocated)"
    assert [(one.command, one.value, one.measured) for one in figure.told] == [
        ("check", 10e9, False), ("monitor run", 12e9, True),
    ]  # fmt: skip


def test_what_one_report_alone_tells_is_no_figure_of_the_life() -> None:
    found = life(report("plan", step={"seconds": {"low": 1, "mid": 2, "high": 3}}), report("investigate"))
    assert found.life is not None
    assert found.life.figures == ()
