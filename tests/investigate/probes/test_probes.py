from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.investigate.outliers import few, findings_of, outliers, times
from preflight.investigate.probes.timed import samples_of, summary
from preflight.investigate.probing import Setup, probe, probe_names, run
from preflight.investigate.workers.worker import Failed, TimedOut, Worker
from preflight.vocabulary.live import Measurement


def measured(rank: int, value: float, name: str = "forward", probe_: str = "compute", **more: object) -> Measurement:
    given = {"unit": "s", "better": "smaller", "low": value * 0.95, "high": value * 1.05, "repeats": 20, **more}
    return Measurement(probe=probe_, name=name, value=value, rank=rank, **given)  # type: ignore[arg-type]


def test_the_interval_of_a_median_is_that_of_its_order() -> None:
    assert summary([3.0, 1.0, 2.0]) == (2.0, None, None), "of three samples, no interval holds the median with 95 %"
    # Of 10 samples the second and the ninth: 1 - 2 (1 + 10) / 1024 = 97.9 %.
    assert summary([float(one) for one in range(10, 0, -1)]) == (5.5, 2.0, 9.0)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    random.seed(7)
    held = 0
    for _ in range(2000):
        _, low, high = summary([random.expovariate(1.0) for _ in range(20)])
        assert low is not None
        assert high is not None
        held += low <= 0.6931 <= high
    assert held / 2000 >= 0.945


def test_warm_up_is_not_counted() -> None:
    calls: list[int] = []
    taken = samples_of(lambda: calls.append(1), {"warm_up": 3, "repeats": 12, "seconds": 60.0})
    assert len(taken) == 12
    assert len(calls) == 15


def test_healthy_ranks_with_noise_are_not_accused() -> None:
    random.seed(11)
    runs = 4000
    alarms = sum(bool(outliers({rank: random.lognormvariate(0.0, 0.05) for rank in range(16)})) for _ in range(runs))
    assert alarms / runs < 0.002
    found = 0
    for _ in range(500):
        costs = {rank: random.lognormvariate(0.0, 0.05) for rank in range(8)}
        costs[5] *= 2.0
        found += [rank for rank, _ in outliers(costs)] == [5]
    assert found / 500 >= 0.99


def test_where_many_differ_or_few_are_there_nobody_is_accused() -> None:
    assert outliers({0: 1.0, 1: 5.0}) == []
    assert outliers({0: 1.0, 1: 1.01, 2: 5.0, 3: 5.1}) == []
    assert [rank for rank, _ in outliers({0: 1.0, 1: 1.01, 2: 5.0})] == [2]


@pytest.mark.parametrize(
    ("factor", "said"), [(1.38, "1.4 times"), (99.4, "99.4 times"), (123.4, "123 times"), (10879.2, "10,900 times")]
)
def test_a_factor_has_no_more_figures_than_mean_something(factor: float, said: str) -> None:
    assert times(factor) == said


def test_a_slow_rank_is_named_once_for_a_probe_and_a_slow_link_by_both_ends() -> None:
    rows = [
        measured(rank, (3.0 if rank == 2 else 1.0) + rank * 0.01, name)
        for rank in range(4)
        for name in ("forward", "step")
    ]
    (finding,) = findings_of(rows)
    assert finding.location.rank == 2
    assert "3.0 times slower" in finding.message
    links = [
        measured(end, 0.9 if (low, high) == (1, 2) else 0.1, f"link {low}-{high}", "collectives", peer=low + high - end)
        for low, high in ((0, 1), (1, 2), (2, 3), (0, 3))
        for end in (low, high)
    ]
    (finding,) = findings_of(links)
    assert finding.message.startswith("link 1-2 is 9.0 times slower")
    assert findings_of([one for one in links if one.name != "link 1-2"]) == []


def _syncs(seconds: dict[tuple[str, int], float]) -> list[Measurement]:
    return [
        Measurement(probe="storage", name="fsync 4 KiB", unit="s", better="smaller", value=took, low=took * 0.9,
                    high=took * 1.1, repeats=20, rank=rank, node=node, details={"shared": "node"})
        for (node, rank), took in seconds.items()
    ]  # fmt: skip


def test_of_a_disk_that_ranks_share_no_rank_is_the_slow_one() -> None:
    """One of them had to wait while another wrote its large file."""
    assert findings_of(_syncs({("n0", rank): 4e-3 if rank == 3 else 3e-4 for rank in range(4)})) == []
    nodes = {(f"n{rank // 2}", rank): 3e-4 * (1 + rank / 100) for rank in range(10)}
    assert findings_of(_syncs(nodes | {("n2", 5): 9e-3})) == []
    (finding,) = findings_of(_syncs(nodes | {("n2", 4): 8e-3, ("n2", 5): 9e-3}))
    assert (finding.location.node, finding.location.rank) == ("n2", None)
    assert finding.message.startswith("node n2 is")
    (either,) = findings_of(_syncs({("a", 0): 3e-4, ("b", 1): 9e-3}))
    assert (either.confidence, either.message.partition(" is ")[0]) == ("possible", "node b")


def test_wrong_values_and_time_outs_are_errors() -> None:
    wrong = measured(1, 1.0, "verify", "memory", details={"wrong": 3})
    late = Measurement(
        probe="storage", name="write", unit="", better="smaller", outcome="timeout", rank=0, reason="60 s"
    )
    rules = {one.rule: one for one in findings_of([wrong, late])}
    assert set(rules) == {"probe.wrong", "probe.timeout"}
    assert all(one.decides for one in rules.values())


def test_every_probe_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"compute", "collectives", "memory", "loading", "storage", "processor"} <= set(probe_names())
    assert main(["list", "probes", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["probes"]
    assert [row["name"] for row in rows] == list(probe_names())
    for name in probe_names():
        assert probe(name).operations({"largest": 64, "world": 2})


def test_a_process_that_does_not_answer_is_replaced() -> None:
    worker = Worker(sys.executable)
    try:
        assert worker.ask("os:getpid", 60) == worker.pid
        first = worker.pid
        began = time.monotonic()
        with pytest.raises(TimedOut, match="not done within"):
            worker.ask("subprocess:check_call", 1.0, args=["sleep", "600"])
        assert time.monotonic() - began < 30
        assert worker.ask("os:getpid", 60) == worker.pid != first
        with pytest.raises(Failed, match=r"FileNotFoundError: .*no-such"):
            worker.ask("os:listdir", 60, path="no-such")
        with pytest.raises(Failed, match="killed by signal 6"):
            worker.ask("os:abort", 60)
        assert worker.ask("os:getpid", 60) == worker.pid
    finally:
        worker.kill()


def test_a_process_goes_with_the_one_that_it_works_for() -> None:
    import subprocess

    program = (
        "import sys; from preflight.investigate.workers.worker import Worker\n"
        "worker = Worker(sys.executable); print(worker.ask('os:getpid', 60), flush=True)\n"
        "worker.ask('time:time', 60)\ninput()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    for _ in range(300):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").exists() and ") Z " in Path(f"/proc/{child}/stat").read_text():
            return
        time.sleep(0.1)
    pytest.fail("it lives on")


@pytest.mark.torch
@pytest.mark.slow
def test_an_injected_slow_rank_loader_link_and_bit_are_each_found_where_they_are() -> None:
    pytest.importorskip("torch")
    setup = Setup(
        python=sys.executable, ranks=4, device="cpu", repeats=12, largest=4096, seconds=1.0, deadline=120,
        settings={"memory": {"bytes": 1 << 20}, "compute": {"shape": {"layers": 1}}},
        inject={"slow-rank": (1,), "slow-loader": (2,), "slow-link": (2, 3), "bit-flip": (3,)},
    )  # fmt: skip
    # On a machine that is busy with other things its noise can hide what is slow: one of three runs has to show it.
    for _ in range(3):
        rows = run(["compute", "loading", "collectives", "memory"], setup)
        assert not [row for row in rows if row.outcome != "done"]
        told = findings_of(rows)
        loading = {one.location.rank for one in told if "(loading)" in one.message}
        links = {one.message.partition(" is ")[0] for one in told if "(collectives)" in one.message}
        if (loading, links) == ({2}, {"link 2-3"}):
            break
    assert (loading, links) == ({2}, {"link 2-3"})
    assert {one.location.rank for one in told if one.rule == "probe.wrong"} == {3}
    best = {row.rank: row.high or 0.0 for row in rows if row.name == "matmul 256"}
    assert min(best, key=lambda rank: best[rank]) == 1, "the better end of the interval: the machine may be busy"
    bus = [row for row in rows if row.name == "all_reduce 4 KiB bus"]
    plain = {row.rank: row for row in rows if row.name == "all_reduce 4 KiB"}
    assert len(bus) == 4
    for row in bus:
        # 2 (n - 1) / n of the bytes cross each link: of 4,096 with four ranks, 6,144. The median of an even number of
        # times lies between two of them, and so does that of the rates, but not at the same place.
        slow, fast = plain[row.rank].high, plain[row.rank].low
        assert slow is not None
        assert fast is not None
        assert 6144 / slow * 0.999 <= (row.value or 0) <= 6144 / fast * 1.001


@pytest.mark.torch
@pytest.mark.slow
def test_storage_alone_and_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    words = [
        "investigate",
        "probe",
        "storage",
        "processor",
        "--folder",
        str(tmp_path),
        "--bytes",
        "1MB",
        "--repeats",
        "10",
    ]
    assert main([*words, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = {row["name"]: row for row in report["measurements"]}
    assert {"write", "read", "fsync 4 KiB", "small file", "python", "hash", "copy"} <= set(names)
    assert names["read"]["details"]["wrong"] == 0
    assert not list(tmp_path.iterdir())
    assert main(["investigate", "probe", "storage", "--folder", str(tmp_path / "missing"), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert {row["outcome"] for row in report["measurements"]} == {"failed"}


@pytest.mark.parametrize(
    "words",
    [["computing"], ["--inject", "slow-rnk=1", "compute"], ["--shape", "hidden=abc", "compute"], ["--compare"],
     ["--shape", "hidden=130", "compute"], ["--largest", "many", "collectives"],
     ["--ranks", "4", "--inject", "slow-rank=2", "collectives"], ["--ranks", "2", "--inject", "slow-loader=2", "loading"]],
)  # fmt: skip
def test_what_is_misused_is_said(words: list[str]) -> None:
    assert main(["investigate", "probe", *words]) == 2


def test_reports_of_ranks_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from preflight.investigate.outcome import outcome
    from preflight.report.render import render

    for rank in range(8):
        report = outcome("probe", "compute", [], measurements=[measured(rank, 4.0 if rank == 6 else 1.0 + rank / 100)])
        (tmp_path / f"rank_{rank}.json").write_text(render(report, "json"))
    assert main(["investigate", "probe", "--compare", str(tmp_path), "--format", "json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["location"]["rank"] == 6


def test_of_two_ranks_that_are_far_apart_it_is_said_and_not_which_is_usual() -> None:
    def row(rank: int, value: float) -> Measurement:
        return Measurement(probe="loading", name="batch", rank=rank, value=value, unit="s", better="smaller",
                           low=value * 0.95, high=value * 1.05, repeats=10, outcome="done")  # fmt: skip

    (told,) = findings_of([row(0, 9e-5), row(1, 1.6)])
    assert (told.location.rank, told.severity, told.confidence) == (1, "warning", "possible")
    assert "of two alone nothing tells which is usual" in told.message
    assert not findings_of([row(0, 1.0), row(1, 1.5)])
    assert few(2)
    assert not few(1)
    assert not few(3)
