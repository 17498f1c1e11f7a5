"""Runs to invariants: what is learnt of trace folders, the same wherever they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

import preflight
from preflight.errors import TraceError, UsageError
from preflight.monitor.invariants_file import read_invariants
from preflight.monitor.judging.engine import Engine
from preflight.monitor.learn.infer import infer, known_of, report_of
from preflight.monitor.learn.reduce import parts, windows_of
from preflight.monitor.relation import relations
from preflight.monitor.trace.folder import TraceFolder
from preflight.monitor.trace.reader import Reader

from .recorded import training

AXIOMS = ["gradients-cleared", "replicas-equal", "step-updates"]


def test_axioms_are_learnt_of_one_run(tmp_path: Path) -> None:
    learnt = infer([training(tmp_path / "one")], AXIOMS)
    assert [(one.id, one.support) for one in learnt.invariants] == [("gradients-cleared", 11), ("step-updates", 12)]
    assert learnt.windows == 13  # the last one, which was cut short, is read and not judged
    assert learnt.invariants[0].source.runs == ("one",)
    assert learnt.torch == ("2.13",)


def test_ranks_are_compared(tmp_path: Path) -> None:
    learnt = infer([training(tmp_path / "two", world=2)], AXIOMS)
    assert [(one.id, one.support) for one in learnt.invariants] == [
        ("gradients-cleared", 22),
        ("replicas-equal", 12),
        ("step-updates", 24),
    ]
    assert learnt.windows == 2 * 13 + 26  # each rank by itself, and both together


def test_what_a_run_breaks_is_not_learnt_but_told(tmp_path: Path) -> None:
    learnt = infer([training(tmp_path / "apart", world=2, apart_at=5)], AXIOMS)
    assert [one.id for one in learnt.invariants] == ["gradients-cleared", "step-updates"]
    assert learnt.broken == {"replicas-equal": 7}


def test_what_was_learnt_holds_where_it_was_learnt(tmp_path: Path) -> None:
    folder = training(tmp_path / "run", world=2)
    engine = Engine(infer([folder]).invariants)
    trace = TraceFolder(folder)
    windows = [window for process in trace.identified() for window in windows_of(trace, process)]
    for window in sorted(windows, key=lambda window: (window.iteration, window.rank)):
        engine.see(window)
    engine.finish()
    assert not engine.violations()
    assert engine.judged


def test_each_rank_and_all_together_are_parts(tmp_path: Path) -> None:
    work = parts(TraceFolder(training(tmp_path / "two", world=2)), list(relations().values()))
    assert [len(part.files) for part in work] == [1, 1, 2]


def test_what_cannot_be_inferred_from(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no trace is given"):
        infer([])
    with pytest.raises(UsageError, match="no relation is called"):
        infer([training(tmp_path / "one")], ["step-update"])
    with pytest.raises(TraceError):
        infer([tmp_path / "nothing"])
    with pytest.raises(UsageError, match="no engine is called"):
        infer([tmp_path / "one"], engine="spark")  # type: ignore[arg-type]


def test_it_is_public_and_answers_with_a_report(tmp_path: Path) -> None:
    out = tmp_path / "invariants.jsonl"
    report = preflight.infer_invariants(training(tmp_path / "one"), output=out, relations=AXIOMS)
    assert [one.id for one in report.invariants] == ["gradients-cleared", "step-updates"]
    assert read_invariants(out) == list(report.invariants)
    assert report.facts["invariants"].value == 2
    before = out.read_bytes()
    preflight.infer_invariants(tmp_path / "one", output=out, relations=AXIOMS)
    assert out.read_bytes() == before


def test_what_is_broken_is_noted(tmp_path: Path) -> None:
    report = preflight.infer_invariants(training(tmp_path / "apart", world=2, apart_at=5), relations=AXIOMS)
    assert len(report.notes) == 1
    assert "replicas-equal was broken 7 times" in report.notes[0]


def test_what_the_library_knows_is_not_widened() -> None:
    kinds = list(relations().values())
    known = known_of(kinds)
    assert all(one.precondition and not one.subject for found in known.values() for one in found)
    assert not {kind.name for kind in kinds if kind.learns} & set(known)


def test_the_rows_of_ranks_that_are_compared_count_once(tmp_path: Path) -> None:
    alone = infer([training(tmp_path / "alone")])
    both = infer([training(tmp_path / "both", world=2)])
    assert both.rows == 2 * alone.rows
    assert infer([tmp_path / "both"], ["replicas-equal"]).rows == both.rows


def test_what_stands_behind_rows_that_are_lost_is_not_learnt(tmp_path: Path) -> None:
    folder = training(tmp_path / "one")
    (path,) = folder.glob("*.trace")
    data, ends = bytearray(path.read_bytes()), [one.end for one in Reader(path).poll()]
    data[ends[6] - 1] ^= 1  # of the block of iteration 5
    path.write_bytes(data)
    learnt = infer([folder], AXIOMS)
    assert [(one.id, one.support) for one in learnt.invariants] == [("gradients-cleared", 4), ("step-updates", 5)]
    assert learnt.lost == {str(path): 5}
    assert f"rows of {path} are lost: nothing is learnt of it from iteration 5 on" in report_of(learnt).notes
