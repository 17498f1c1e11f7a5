"""Who began it where processes are known by a number alone: that of their file, of their label, or of the launcher's word on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

Investigated = Callable[[Mapping[str, str]], Incident]
REFUSED = "torch.distributed.DistNetworkError: The client socket has timed out after 22000ms while trying to connect to (10.1.0.1, 31871)."
CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.1.0.1]:41112"
LATE = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 9000ms for recv operation to complete"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/data/part_7.bin'"


@pytest.fixture
def incident_of(tmp_path: Path) -> Investigated:
    def investigated(texts: Mapping[str, str]) -> Incident:
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        return diagnose([str(tmp_path)]).incident

    return investigated


def steps(count: int) -> str:
    return "".join(
        f"2026-02-03 04:05:{second:02d},123 fit INFO step {second} loss 1.{second}\n" for second in range(count)
    )


def raised(says: str, label: str = "") -> str:
    lines = ("Traceback (most recent call last):", '  File "/job/fit.py", line 20, in main', says)
    return "".join(f"{label}{line}\n" for line in lines)


def test_files_counted_to_the_size_of_the_run_are_those_of_its_ranks(incident_of: Investigated) -> None:
    files = {
        f"proc-server{n}.txt": f"start, world size 4\n{steps(6)}" + ("" if n == 2 else raised(LATE)) for n in range(4)
    }
    assert incident_of(files).culprit.ranks == (2,)


def test_files_counted_beside_the_one_that_trains_are_those_of_its_helpers(incident_of: Investigated) -> None:
    files = {f"worker.{n}.txt": "reads its part\n" + (raised(MISSING) if n else "") for n in range(2)}
    incident = incident_of({**files, "main.txt": f"start, world size 2\n{steps(30)}"})
    assert incident.culprit.ranks == ()


def test_files_of_machines_of_several_ranks_are_not_those_of_ranks(incident_of: Investigated) -> None:
    files = {f"server{n}.txt": f"start, world size 16\n{steps(6)}" + ("" if n == 2 else raised(LATE)) for n in range(4)}
    assert 2 not in incident_of(files).culprit.ranks


def test_the_keeper_of_the_store_left_where_no_other_rank_reaches_it(incident_of: Investigated) -> None:
    files = {f"server{n}.txt": "start, world size 3\n" + (raised(REFUSED) if n else "") for n in range(3)}
    assert incident_of(files).culprit.ranks == (0,)


def test_a_first_rank_that_trains_alone_has_left_no_store(incident_of: Investigated) -> None:
    files = {f"server{n}.txt": "start, world size 3\n" + (raised(REFUSED) if n else steps(30)) for n in range(3)}
    assert incident_of(files).culprit.ranks == ()


def test_nobody_is_accused_where_the_keeper_cannot_reach_the_store_either(incident_of: Investigated) -> None:
    files = {f"server{n}.txt": "start, world size 3\n" + raised(REFUSED) for n in range(3)}
    assert incident_of(files).culprit.ranks == ()


def test_workers_of_so_many_behind_a_priority_are_ranks(incident_of: Investigated) -> None:
    lines = [f"<6>I0203 04:05:{10 + at}.000123 71{n} fit.cc:40] [worker {n}/3] step {at} loss 1.{at}\n"
             for at in range(4) for n in range(3)]  # fmt: skip
    lines.append(f"<3>E0203 04:05:20.000123 711 fit.cc:91] [worker 1/3] {MISSING}\n")
    lines += [f"<3>E0203 04:05:21.000123 71{n} fit.cc:12] [worker {n}/3] {CLOSED}\n" for n in (0, 2)]
    incident = incident_of({"job.log": "".join(lines)})
    assert incident.culprit.ranks == (1,)
    assert incident.first_failure is not None
    assert incident.first_failure.time is not None


def test_lightning_says_before_the_line_which_child_it_is_about(incident_of: Investigated) -> None:
    members = "".join(f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n" for rank in range(4))
    ended = (
        "[rank: 3] Child process with PID 8213 terminated with code -11. Forcefully terminating all other processes\n"
    )
    assert incident_of({"out.log": members + ended}).culprit.ranks == (3,)


def launched(host: str, code: int) -> str:
    at = f"{host}: [2026-02-03 04:05:40,413]"
    begun = "".join(
        f"{at} [INFO] [launch.py:256:main] process 811{n} spawned with command: ['python3']\n" for n in range(4)
    )
    return (
        f"{begun}{at} [INFO] [launch.py:319:sigkill_handler] Killing subprocess 8110\n"
        f"{at} [ERROR] [launch.py:325:sigkill_handler] ['python3', '-u', 'fit.py', '--local_rank=1'] exits with return code = {code}\n"
    )


@pytest.mark.parametrize(("codes", "nodes"), [((1, -11), ("host-1",)), ((-11, 1), ("host-0",)), ((-11, -11), ())])
def test_where_one_process_was_struck_is_told_by_its_launcher(
    incident_of: Investigated, codes: tuple[int, int], nodes: tuple[str, ...]
) -> None:
    told = "".join(launched(f"host-{n}", code) for n, code in enumerate(codes))
    assert incident_of({"run.log": told + "pdsh@login: host-1: ssh exited with exit code 1\n"}).culprit.nodes == nodes


def _left(last: str, second: int) -> str:
    lines = [f"[rank{n}] 2026-02-03 04:05:{10 + at:02d} step {at} loss 1.{at}\n" for at in range(5) for n in range(4)]
    lines.append(f"[rank2] 2026-02-03 04:05:{second:02d} {last}\n")
    lines += [f"[rank{n}] 2026-02-03 04:05:20 {CLOSED}\n" for n in (0, 1, 3)]
    return "".join(lines)


@pytest.mark.parametrize(
    ("last", "second", "left"), [("no more samples, finished", 19, True), ("no more samples, finished", 25, False)]
)
def test_who_says_that_it_is_done_before_all_others_lose_it_has_left_them(
    incident_of: Investigated, last: str, second: int, left: bool
) -> None:
    reasons = [reason.text for reason in incident_of({"job.log": _left(last, second)}).culprit.reasons]
    assert any("come to its end" in text for text in reasons) == left


def test_whose_own_loss_broke_gave_it_to_the_others(incident_of: Investigated) -> None:
    lines = [f"2026-02-03 04:05:{10 + at} INFO step {at} loss 1.{n} [rank {n}]\n" for at in range(5) for n in range(4)]
    lines += [f"2026-02-03 04:05:16 INFO step 5 loss {'nan' if n == 2 else 1.5} [rank {n}]\n" for n in range(4)]
    lines += [raised("FloatingPointError: gradient is not finite at step 5") for _ in range(4)]
    assert incident_of({"job.log": "".join(lines)}).culprit.ranks == (2,)


def test_stages_of_a_pipeline_that_fill_in_a_loss_leave_nobody_to_accuse(incident_of: Investigated) -> None:
    lines = [
        f"2026-02-03 04:05:{10 + at} INFO step {at} loss {f'1.{at}' if n == 3 else '0.0'} [rank {n}]\n"
        for at in range(5)
        for n in range(4)
    ]
    lines += [f"2026-02-03 04:05:16 INFO step 5 loss {'nan' if n == 3 else '0.0'} [rank {n}]\n" for n in range(4)]
    lines += [raised("FloatingPointError: gradient is not finite at step 5") for _ in range(4)]
    assert incident_of({"job.log": "".join(lines)}).culprit.ranks == ()


def test_where_all_losses_broke_none_gave_it_to_the_others(incident_of: Investigated) -> None:
    lines = [f"2026-02-03 04:05:{10 + at} INFO step {at} loss 1.{n} [rank {n}]\n" for at in range(5) for n in range(4)]
    lines += [f"2026-02-03 04:05:16 INFO step 5 loss nan [rank {n}]\n" for n in range(4)]
    lines += [raised("FloatingPointError: gradient is not finite at step 5") for _ in range(4)]
    assert incident_of({"job.log": "".join(lines)}).culprit.ranks == ()


def test_what_a_cloud_collects_is_of_the_machine_that_it_names(incident_of: Investigated) -> None:
    def collected(machine: int, severity: str, text: str, second: int) -> str:
        return json.dumps({
            "insertId": f"x{machine}{second}",
            "jsonPayload": {"message": text, "logger": "fit"},
            "labels": {"compute.googleapis.com/resource_name": f"vm-{machine}"},
            "severity": severity,
            "timestamp": f"2026-02-03T04:05:{second}.250Z",
        })  # fmt: skip

    lines = [collected(n, "INFO", f"step {at} loss 1.{at}", 10 + at) for at in range(5) for n in range(3)]
    lines.append(collected(1, "ERROR", MISSING, 20))
    lines += [collected(n, "ERROR", CLOSED, 22) for n in (0, 2)]
    assert incident_of({"export.jsonl": "\n".join(lines)}).culprit.nodes == ("vm-1",)


@pytest.mark.parametrize("head", ["{at}.120 | INFO     | fit.loop:step:44 | rank {n} | ", "{at} INFO rank {n} ", "Feb 03 {clock} box-{n} fit[7{n}]: rank={n} "])  # fmt: skip
def test_ranks_said_behind_what_a_logger_puts_before_are_those_of_the_writers(
    incident_of: Investigated, head: str
) -> None:
    def put(n: int, second: int, text: str) -> str:
        clock = f"04:05:{second}"
        return head.format(at=f"2026-02-03 {clock}", clock=clock, n=n) + text + "\n"

    lines = [put(n, 10 + at, f"step {at} loss 1.{at}") for at in range(5) for n in range(3)]
    lines += [put(1, 20, MISSING), *(put(n, 22, CLOSED) for n in (0, 2))]
    assert incident_of({"job.log": "".join(lines)}).culprit.ranks == (1,)


def _watched(rank: int, of: str = "") -> str:
    lines = "".join(f"2026-02-03 04:05:{20 + at} rank {rank}{of}: step {at}\n" for at in range(4))
    return lines + (
        f"[rank{rank}]:[E203 04:15:40.100112207 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=9216, NumelOut=9216, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
    )


def test_of_two_of_four_that_wait_both_others_may_have_stopped(incident_of: Investigated) -> None:
    files = {f"out.{n}.log": _watched(n, " of 4") for n in (1, 2)}
    silent = {f"out.{n}.log": f"2026-02-03 04:05:20 rank {n} of 4: step 0\n" * 4 for n in (0, 3)}
    culprit = incident_of({**files, **silent}).culprit
    assert culprit.ranks == (0, 3)
    chances = [suspect.probability for suspect in culprit.suspects[:2]]
    assert chances[0] == pytest.approx(chances[1])


def test_of_two_logs_of_a_run_of_nobody_knows_how_many_none_in_a_gap_is_accused(incident_of: Investigated) -> None:
    assert incident_of({f"out.{n}.log": _watched(n) for n in (1, 2)}).culprit.ranks == ()
