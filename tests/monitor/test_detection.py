"""What the measurements take from programs and their headers, and which statements may be shipped."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from preflight.monitor.invariants_file import read_invariants
from preflight.monitor.library_of import FOLDER, shipped
from preflight.monitor.mini import Mini
from preflight.monitor.relation import relations
from preflight.vocabulary.invariant import Invariant, encoded

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks" / "monitor"


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for module in ("warm", "healthy_programs", name):
        monkeypatch.delitem(sys.modules, module, raising=False)
    from importlib import import_module

    return import_module(name)


def test_every_program_and_fault_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    detect = benchmark("detect", monkeypatch)
    bugs = list(detect.bugs())
    programs = {path.stem for path in (BENCHMARKS / "bugs").glob("*.py")}
    assert programs < {bug.name for bug in bugs}
    assert sum(bug.name.startswith("gpt_") and bug.file.stem == "gpt_faults" for bug in bugs) == 7
    assert all(bug.names and bug.effect >= 0 for bug in bugs)


def test_what_counts_as_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    detect = benchmark("detect", monkeypatch)
    bug = detect.Bug("one", Path("one.py"), 3, ("fc",), "other", True, (), ())
    table = detect.Table("all")
    table.rows = [
        (bug, detect.Verdict(5, 1, True, ("relation",), {})),
        (bug, detect.Verdict(6, 2, False, ("relation",), {"other": "step 1: seen"})),
        (bug, detect.Verdict(None, 0, False, (), {})),
        (bug._replace(detectable=False), detect.Verdict(None, 0, False, (), {})),
    ]
    assert table.totals().splitlines() == [
        "Of 3 bugs that are detectable 2 are caught, 1 (33%) of them within 2 steps of the first effect; "
        "1 as one group, 1 with one of the names that a good report tells.",
        "Of 1 that were judged not detectable 0 are caught.",
        "1 of 4 correct twins are alarmed.",
    ]
    assert "| 5 (+2) |" in "\n".join(table.lines())
    assert "missed" in "\n".join(table.lines())


def test_ranks_are_those_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    warm = benchmark("warm", monkeypatch)
    ranks = {job.file.stem: job.ranks for job in warm.jobs_of("healthy", Path("out"))}
    assert (ranks["fsdp2_with_tensor_parallel"], ranks["ddp_sampler_epochs"], ranks["cnn_classifier"]) == (4, 2, 0)


def test_names_of_a_program_are_not_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    build = benchmark("build_library", monkeypatch)
    mini = Mini()
    window = mini.window(("variable", "model.fc.weight", {}), "forward model", ("loss", 0.5), "step optimizer0:SGD")
    names = set(build.names_in(window))
    assert names == {"model.fc.weight", "model", "optimizer0:SGD", "optimizer0", "train.py:9", "train.py"}
    for subject, told in (
        ({"object": "model"}, True),
        ({"place": "other.py:4"}, True),
        ({"module": "Linear", "value": "model"}, False),
        ({}, False),
    ):
        assert build.speaks_of_names(Invariant("x", "x", subject), names) is told


def test_the_shipped_library_can_be_read_and_is_in_order() -> None:
    known = relations()
    for file in FOLDER.glob("*.jsonl"):
        found = read_invariants(file)
        assert file.read_bytes() == encoded(found)
        assert {one.relation for one in found} == {file.stem}
        assert file.stem in known, "a relation that is gone: run benchmarks/monitor/build_library.py"
        assert all(one.source.origin == "library" and one.text for one in found)
    spoken = {one.relation for one in shipped()}
    assert {name for name, kind in known.items() if not kind.learns and not kind.predicted} <= spoken


def test_an_engine_is_measured_with_a_recording_of_the_benchmark_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = benchmark("long_traces", monkeypatch)
    assert traces.refused(tmp_path / "nowhere") == f"there is no folder {tmp_path / 'nowhere'}"
    assert "holds no trace" in traces.refused(tmp_path)
    engine = benchmark("engine", monkeypatch)
    with pytest.raises(SystemExit, match=r"check of .* failed:\n(.|\n)*Error"):
        engine.in_own_process("check", str(tmp_path / "nowhere"), "too many")
