"""The event logger: from many processes, readable after anything, and as the textbook uses it."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

import preflight
from preflight.errors import InputError
from preflight.investigate.events.logger import EventLogger, event_of
from preflight.investigate.events.reading import job_of_row, read_events, read_jobs, split_nodes


def test_events_are_written_and_read_back(tmp_path: Path) -> None:
    events = preflight.EventLogger(tmp_path / "events.jsonl", rank=3, job="a")
    events.log_checkpoint(100, "step-100.pt")
    events.log_lr_change(200, 0.1, 0.01)
    events.log("odd", {"path": tmp_path}, 201)
    events.log_failure(300, "CUDA out of memory", "oom")
    found = events.events
    assert [one.event_type for one in found] == ["checkpoint", "lr_change", "odd", "failure"]
    assert found[0].details == {"path": "step-100.pt"}
    assert found[1].step == 200
    assert (found[3].details["category"], found[3].rank, found[3].job) == ("oom", 3, "a")
    assert EventLogger(tmp_path / "none.jsonl").events == []


def _write(path: str, count: int) -> None:
    events = EventLogger(path)
    for step in range(count):
        events.log("step", {"text": "x" * 3000}, step)


def test_lines_of_many_processes_never_mix(tmp_path: Path) -> None:
    path = str(tmp_path / "events.jsonl")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(path, 50)) for _ in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    found = EventLogger(path).events
    assert len(found) == 200
    assert len({one.pid for one in found}) == 4


def test_the_logger_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    program = (
        "import sys\nbefore = set(sys.modules)\nfrom preflight import EventLogger\n"
        f"EventLogger({str(tmp_path / 'e.jsonl')!r}).log_start(0)\n"
        "print(sorted({n.partition('.')[0] for n in set(sys.modules) - before} - set(sys.stdlib_module_names)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['preflight']"


def test_cut_and_foreign_lines_are_left_out(tmp_path: Path) -> None:
    assert event_of('{"timestamp": 1.0, "event_ty') is None
    assert event_of("[1, 2]") is None
    assert event_of('{"time": "2", "event": "save", "details": 3}') is not None
    path = tmp_path / "events.jsonl"
    path.write_text('{"timestamp": 1, "event_type": "save"}\nhello\n')
    found, notes = read_events([str(path)])
    assert len(found) == 1
    assert "1 lines are no events" in notes[0]
    with pytest.raises(InputError):
        read_events([str(tmp_path / "nowhere")])
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError):
        read_events([str(tmp_path / "empty.jsonl")])


def test_jobs_are_read_from_tables(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text('job,outcome,nodes,driver\n7,FAILED,"node[01-02]",550\n8,COMPLETED,node03 node04,535\n')
    (bad, good), left_out = read_jobs([str(table)])
    assert left_out == []
    assert (bad.name, bad.failed, bad.nodes, bad.versions) == ("7", True, ("node01", "node02"), (("driver", "550"),))
    assert (good.failed, good.nodes) == (False, ("node03", "node04"))
    assert job_of_row({"ok": "false"}, "x").failed
    assert not job_of_row({"exit_code": "0"}, "x").failed
    with pytest.raises(InputError):
        job_of_row({"nodes": "a"}, "x")


def test_lists_of_nodes_are_written_out() -> None:
    assert split_nodes("a1,b2; c3") == ["a1", "b2", "c3"]
    assert split_nodes("n[08-10,12]-ib x[1-2]") == ["n08-ib", "n09-ib", "n10-ib", "n12-ib", "x1", "x2"]
    assert split_nodes("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]


def test_the_command_answers_by_its_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from preflight.cli.main import main

    table = tmp_path / "jobs.csv"
    rows = [f"{i},{'failed' if i % 2 else 'ok'},{'lemon' if i % 2 else 'fine'} other{i % 3}" for i in range(12)]
    table.write_text("job,outcome,nodes\n" + "\n".join(rows) + "\n")
    assert main(["investigate", "events", "--jobs", str(table)]) == 1
    said = capsys.readouterr().out
    assert "associated with failures: node lemon" in said
    assert main(["investigate", "events"]) == 2
    table.write_text("job,outcome,nodes\n1,failed,a\n2,ok,b\n")
    assert main(["investigate", "events", "--jobs", str(table)]) == 3
