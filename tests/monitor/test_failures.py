"""A relation that fails ends neither a check nor learning: it is named, and the verdict says that not all was judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from preflight.cli.parts.writing import EXIT_CODES
from preflight.monitor.api import check_trace
from preflight.monitor.follow import Follower
from preflight.monitor.judging import examples
from preflight.monitor.learn.infer import infer, report_of
from preflight.monitor.library_of import shipped
from preflight.monitor.relation import Relation, relations
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.gaps import gaps
from preflight.monitor.trace.seal import seal
from preflight.monitor.window import Window
from preflight.vocabulary.report import Report
from preflight.vocabulary.watched import NotJudged

from .learn.recorded import training


def failing(monkeypatch: pytest.MonkeyPatch, name: str, at: int) -> None:
    """Let a relation fail at an iteration, after it has said what it says."""
    kind = relations()[name]
    method = "see_ranks" if kind.across else "see"
    judged = getattr(kind, method)

    def see(self: Relation, given: Any) -> Iterator[Any]:
        yield from judged(self, given)
        window: Window = next(iter(given.values())) if kind.across else given
        if window.iteration >= at:
            raise KeyError("no such column")

    monkeypatch.setattr(kind, method, see)


def not_judged(report: Report) -> tuple[NotJudged, ...]:
    assert report.watched is not None
    return report.watched.not_judged


def test_a_healthy_run_is_judged_whole(tmp_path: Path) -> None:
    report = check_trace(training(tmp_path / "run"))
    assert report.verdict == "GO"
    assert not_judged(report) == ()


@pytest.mark.parametrize("apart_at", [None, 6])
def test_where_a_table_is_lost_not_all_is_judged_and_what_is_found_decides(
    tmp_path: Path, apart_at: int | None
) -> None:
    folder = training(tmp_path / "run", world=2, apart_at=apart_at)
    seal(folder)
    (folder / "end.parquet").unlink()
    report = check_trace(folder)
    assert report.verdict == ("UNKNOWN" if apart_at is None else "NO-GO")
    assert any(note.startswith("end.parquet is missing; its ") for note in report.notes)


def test_a_relation_that_fails_is_named_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = training(tmp_path / "run", iterations=12)
    whole = check_trace(folder)
    failing(monkeypatch, "step-updates", at=5)
    report = check_trace(folder)
    assert not_judged(report) == (NotJudged("step-updates", 0, 5, "KeyError: 'no such column'"),)
    told = "step-updates is not judged from iteration 5 of rank 0 on: it failed with KeyError: 'no such column'"
    assert told in report.notes
    assert report.verdict == "UNKNOWN"
    assert EXIT_CODES[report.verdict] == 3
    assert whole.watched is not None
    assert report.watched is not None
    assert report.watched.examples == whole.watched.examples - 7  # of iterations 5 to 11


def test_what_others_find_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "step-updates", at=2)
    report = check_trace(training(tmp_path / "run", world=2, apart_at=6))
    assert [(one.relation, one.rank) for one in not_judged(report)] == [("step-updates", 0), ("step-updates", 1)]
    assert report.verdict == "NO-GO"
    assert "replicas-equal" in {one.relation for one in report.violations}


def test_a_relation_that_compares_ranks_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "replicas-equal", at=4)
    report = check_trace(training(tmp_path / "run", world=2))
    assert not_judged(report) == (NotJudged("replicas-equal", None, 4, "KeyError: 'no such column'"),)
    assert any("from iteration 4 on" in note for note in report.notes)
    assert report.verdict == "UNKNOWN"


def test_what_several_relations_rest_on_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(window: Window) -> list[Any]:
        raise ValueError("no number")

    monkeypatch.setattr(examples, "steps_of", find)
    report = check_trace(training(tmp_path / "run", iterations=3))
    failed = not_judged(report)
    assert {one.iteration for one in failed} == {0}
    assert {one.error for one in failed} == {"ValueError: no number"}
    assert len(failed) == len({one.relation for one in failed}) > 30
    assert report.verdict == "UNKNOWN"


def test_nothing_is_learnt_of_a_relation_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = training(tmp_path / "run", world=2)
    whole = infer([folder])
    failing(monkeypatch, "step-updates", at=5)
    learnt = infer([folder])
    assert learnt.failed == {"step-updates": "KeyError: 'no such column'"}
    assert [one for one in whole.invariants if one.relation != "step-updates"] == list(learnt.invariants)
    assert len(learnt.invariants) < len(whole.invariants)
    assert "nothing is learnt of step-updates: it failed with KeyError: 'no such column'" in report_of(learnt).notes


def test_an_explanation_that_fails_takes_no_alarm_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(example: Any) -> tuple[str, str]:
        raise IndexError

    kind = relations()["replicas-equal"]
    monkeypatch.setattr(kind, "explain", explain)
    report = check_trace(training(tmp_path / "run", world=2, apart_at=6))
    found = next(one for one in report.violations if one.relation == "replicas-equal")
    assert found.cause == kind.cause


def test_ranks_that_end_at_different_steps_are_judged_to_their_own_ends(tmp_path: Path) -> None:
    long = training(tmp_path / "long", world=2, iterations=12, apart_at=3)
    short = training(tmp_path / "short", world=2, iterations=5, apart_at=3)
    (long / "rank-00001.101.trace").write_bytes((short / "rank-00001.101.trace").read_bytes())
    follower = Follower(TraceFolder(long), shipped())
    follower.check()
    steps = next(one.id for one in shipped() if one.relation == "step-has-gradients")
    assert follower.judged()[steps] == 12 + 5
    assert [gap.rank for gap in gaps(follower.folder) if gap.what == "shorter"] == [1]
    parted = next(one for one in follower.violations() if one.relation == "replicas-equal")
    assert (parted.first_iteration, parted.count) == (3, 2)  # as long as both ranks told of it
