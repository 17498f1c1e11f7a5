from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.errors import UsageError
from preflight.investigate.answers import Facts
from preflight.investigate.trees import walk, walk_text
from preflight.investigate.triage.checkpoints import checkpoints
from preflight.investigate.triage.headroom import Card, Headroom, findings_of, headroom, parse_cards
from preflight.investigate.triage.live import Look, Seen, look, lost, nothing_of_a_run, observed
from preflight.investigate.triage.processes import job_processes
from preflight.investigate.triage.reach import parse, reach
from preflight.vocabulary.live import RankPulse

ROOT = Path(__file__).parents[3]
FAULTS = ROOT / "tests" / "investigate" / "data" / "faults"
EIGHT = ROOT / "tests" / "investigate" / "liveness" / "eight_ranks.py"
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
SLEEP = "import time; time.sleep(600)"


@linux
def test_ranks_are_found_by_their_variables_and_a_stopped_one_is_told() -> None:
    given = {**os.environ, "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "mine"}
    program = [sys.executable, "-c", "print('up', flush=True); " + SLEEP]
    ranks = [
        subprocess.Popen(program, env={**given, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    try:
        assert [rank.stdout.readline() for rank in ranks if rank.stdout] == ["up\n", "up\n"]
        os.kill(ranks[1].pid, signal.SIGSTOP)
        os.waitpid(ranks[1].pid, os.WUNTRACED)
        found = [one for one in job_processes() or () if one.pid in {rank.pid for rank in ranks}]
        assert [(one.rank, one.world_size, one.run, one.role) for one in found] == [
            (0, 2, "mine", "rank"), (1, 2, "mine", "rank"),
        ]  # fmt: skip
        assert found[1].state == "stopped"
        assert (found[0].bytes or 0) > 1 << 20
        seen = look(Look(process=ranks[1].pid, deadline=1.0))
        assert [one.pid for one in seen.processes or ()] == [ranks[1].pid]
        assert [one.message for one in seen.findings if one.rule == "triage.process"] == [
            f"rank 1 (process {ranks[1].pid}) is stopped"
        ]
        assert observed(seen)["processes"] is True
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


@linux
def test_a_workers_child_is_no_rank_of_its_own() -> None:
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"
    given = {**os.environ, "WORLD_SIZE": "1", "RANK": "0"}
    rank = subprocess.Popen([sys.executable, "-c", program], env=given, start_new_session=True)
    try:
        for _ in range(100):
            children = Path(f"/proc/{rank.pid}/task/{rank.pid}/children")
            if children.exists() and children.read_text().strip():
                break
            time.sleep(0.1)
        assert [one.pid for one in job_processes(rank.pid) or ()] == [rank.pid]
    finally:
        os.killpg(rank.pid, signal.SIGKILL)
        rank.wait()


def test_the_tables_of_the_driver_are_read() -> None:
    said = "0, NVIDIA H100 80GB HBM3, GPU-aa, 81559, 80112, 97\n1, NVIDIA H100 80GB HBM3, GPU-bb, 81559, 4, [N/A]\n"
    users = "GPU-aa, 4242, 70000\nGPU-aa, 999, [N/A]\n"
    first, second = parse_cards(said, users)
    assert (first.total, first.used, first.busy) == (81559 << 20, 80112 << 20, 0.97)
    assert first.users == {4242: 70000 << 20, 999: 0}
    assert second.busy is None
    told = findings_of(Headroom(cards=(first, second)), {4242})
    assert {one.rule for one in told} == {"triage.strangers", "triage.card-memory"}
    assert "999" in next(one.message for one in told if one.rule == "triage.strangers")
    assert parse_cards("No devices were found\n", "") == ()


def test_little_memory_is_an_error_and_names_who_has_it() -> None:
    seen = Headroom(total=100 << 30, available=1 << 30, holders=((7, 60 << 30, "python loader.py"),))
    (finding,) = findings_of(seen, set())
    assert finding.decides
    assert "loader.py" in finding.message
    assert findings_of(Headroom(total=100 << 30, available=50 << 30), set()) == []
    (finding,) = findings_of(Headroom(limit=10 << 30, limit_used=(10 << 30) - 1), set())
    assert "control group" in finding.message
    assert findings_of(Headroom(cards=(Card(index=0, name="A", total=100, used=50, users={1: 50}),)), set()) == []


@linux
def test_the_memory_of_this_machine_is_seen() -> None:
    seen = headroom(5.0)
    assert (seen.total or 0) >= (seen.available or 0) > 0
    assert seen.holders
    assert seen.cards or seen.problem


def test_nodes_are_named_with_or_without_a_port() -> None:
    assert parse(["a,b:29500", "[fd00::1]:7", "fd00::2"]) == [("a", 22), ("b", 29500), ("fd00::1", 7), ("fd00::2", 22)]
    with pytest.raises(UsageError):
        parse(["a:port"])


def test_who_can_be_reached_is_known_by_the_deadline() -> None:
    with socket.socket() as listening, socket.socket() as closed:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        closed.bind(("127.0.0.1", 0))  # bound, and nobody listens
        targets = [("127.0.0.1", listening.getsockname()[1]), ("127.0.0.1", closed.getsockname()[1]),
                   ("no-such-host.invalid", 22), ("198.51.100.7", 9)]  # fmt: skip
        # The last is nobody's address; what comes of it depends on the network, that it comes in time does not.
        began = time.monotonic()
        found = reach(targets, 1.0)
        assert time.monotonic() - began < 30
    assert [one.state for one in found[:2]] == ["open", "refused"]
    assert found[2].state in ("no such name", "no answer")
    assert len(found) == 4


def test_the_age_of_the_last_checkpoint_is_told(tmp_path: Path) -> None:
    (tmp_path / "step_10").mkdir()
    (tmp_path / "step_20").mkdir()
    for step, age in ((10, 7200), (20, 3600)):
        for shard in range(2):
            path = tmp_path / f"step_{step}" / f"shard_{shard}.pt"
            path.write_bytes(b"x" * 100)
            os.utime(path, (1e9 - age, 1e9 - age))
    (tmp_path / "step_30.pt.part").write_bytes(b"x")
    seen = checkpoints(str(tmp_path), now=1e9)
    assert (seen.files, seen.age_seconds, seen.bytes) == (4, 3600.0, 200)
    assert "step_20" in (seen.newest or "")
    assert seen.partial == (str(tmp_path / "step_30.pt.part"),)
    assert checkpoints(str(tmp_path / "missing")).problem == "there is no such folder"


def test_the_command_looks_at_this_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.pt").write_bytes(b"x")
    os.utime(tmp_path / "old.pt", (1e9, 1e9))
    words = ["investigate", "triage", "--checkpoints", str(tmp_path), "--oldest", "30", "--deadline", "1"]
    assert main([*words, "--format", "json"]) in (0, 1)
    report = json.loads(capsys.readouterr().out)
    assert [one["rule"] for one in report["findings"] if one["location"].get("path")] == ["triage.checkpoint"]
    assert any("who lives was not asked" in note for note in report["notes"])
    assert main([*words, "--nodes", "a:b"]) == 2


@linux
def test_a_process_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    assert main(["investigate", "triage", "--process", str(ended.pid), "--deadline", "1"]) == 2
    assert f"no process {ended.pid}" in capsys.readouterr().err


def test_a_node_on_which_nothing_of_a_run_is_seen_is_not_called_healthy() -> None:
    enough = Headroom(total=64 << 30, available=60 << 30)
    assert nothing_of_a_run(Seen(processes=(), memory=enough))
    assert not nothing_of_a_run(
        Seen(processes=(), memory=Headroom(cards=(Card(index=0, name="H100", total=1, used=0),)))
    )


def _pulses(**states: int) -> tuple[RankPulse, ...]:
    rank = itertools.count()
    return tuple(
        RankPulse(rank=next(rank), state=state, node="n0", step=None if state == "absent" else 30, reason="so it is")  # type: ignore[arg-type]
        for state, count in states.items()
        for _ in range(count)
    )


@pytest.mark.parametrize(
    ("pulses", "asked", "going"),
    [
        (_pulses(stalled=4), True, False),
        (_pulses(stalled=3, stopped=1), True, False),
        (_pulses(alive=4), True, True),
        (_pulses(alive=4), False, None),  # nobody waited for a step
        (_pulses(absent=4), True, None),
        (_pulses(left=4), True, None),
    ],
)
def test_whether_steps_are_made_is_known_where_it_was_waited_for_them(
    pulses: tuple[RankPulse, ...], asked: bool, going: bool | None
) -> None:
    seen = Seen(processes=None, memory=Headroom(), pulses=pulses, steps=asked)
    assert observed(seen).get("makes_steps") == going
    way = walk(Facts(observed={"processes": True, **observed(seen)}))
    assert ("a hang" in walk_text(way, 100)) == (going is False)


def test_many_ranks_that_are_lost_alike_are_one_finding() -> None:
    found = list(lost(_pulses(stalled=200, gone=2)))
    assert len(found) == 3
    assert "ranks 0-199" in next(one.message for one in found if "stalled" in one.message)
    assert {one.location.rank for one in found} == {None, 200, 201}


def test_a_long_path_does_not_hide_the_line_that_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / ("a" * 60) / ("b" * 60)
    folder.mkdir(parents=True)
    (folder / "rank_0.log").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    assert main(["investigate", "triage", str(folder)]) == 1
    way = capsys.readouterr().out.partition("THE WAY THROUGH THE DECISION TREES")[2]
    assert "".join(way.split()).count("rank_0.log:1:torch.OutOfMemoryError") >= 1
    assert max(map(len, way.splitlines())) <= 80 or "a" * 60 in way


def test_the_command_looks_at_logs_and_walks_the_trees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["investigate", "triage", str(FAULTS / "exception" / "run")]) == 1
    said = capsys.readouterr().out
    assert "rank 1" in said
    assert "Is training running? no" in said
    assert main(["investigate", "triage", str(FAULTS / "healthy" / "run"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["incident"]["category"] == "none"


def test_logs_and_node_are_one_report(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "investigate",
        "triage",
        str(FAULTS / "exception" / "run"),
        "--live",
        "--deadline",
        "1",
        "--nodes",
        "127.0.0.1:1",
    ]
    assert main([*words, "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["incident"]["culprit"]["ranks"] == [1]
    assert [one["rule"] for one in report["findings"] if one["location"].get("node")] == ["triage.node"]


@pytest.mark.torch
@pytest.mark.slow
@linux
def test_the_command_names_the_ranks_that_are_lost(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = [sys.executable, str(EIGHT), str(port), "kill:6,stop:1,stall:4"]
    run = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.stdin.write("go\n")
        run.stdin.flush()
        assert run.stdout.readline() == "struck\n"
        words = [
            "investigate",
            "triage",
            "--store",
            f"127.0.0.1:{port}",
            "--deadline",
            "3",
            "--stalled",
            "--format",
            "json",
        ]
        assert main(words) == 1
        report = json.loads(capsys.readouterr().out)
        assert {one["rank"]: one["state"] for one in report["pulses"] if one["state"] != "alive"} == {
            1: "stopped",
            4: "stalled",
            6: "gone",
        }
        told = {one["location"]["rank"] for one in report["findings"] if one["rule"] == "triage.rank"}
        assert told == {1, 4, 6}
        assert main(words[:-2]) == 1
        shown = capsys.readouterr().out
        assert "6 of 8 live, 1 of them without a step" in shown
        assert "Does it make steps? yes" in shown
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    assert main(words) == 1, "the store is gone"
    assert [one["rule"] for one in json.loads(capsys.readouterr().out)["findings"] if one["rule"] == "triage.store"]
