"""Who began it where ranks wait in rings and for keys, where one node alone is stopped, and where not all logs are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.logs.styles import style_of
from preflight.vocabulary.incident import Incident

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/"
TIMED_OUT = GLOO + "unbound_buffer.cc:78] Timed out waiting 8000ms for {} operation to complete"
CLOSED = GLOO + "pair.cc:553] Connection closed by peer [127.0.0.1]:6053"
Investigated = Callable[..., Incident]


@pytest.fixture
def incident_of(tmp_path: Path) -> Investigated:
    def investigated(**texts: str) -> Incident:
        for name, text in texts.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".log")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return diagnose([str(tmp_path)]).incident

    return investigated


def raised(rank: int, says: str, line: int = 40, inside: str = "_engine_run_backward") -> str:
    library = "/opt/venv/lib/python3/site-packages/torch/autograd/graph.py"
    return (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/job/train.py", line {line}, in main\n[rank{rank}]:     loss.backward()\n'
        f'[rank{rank}]:   File "{library}", line 979, in {inside}\n[rank{rank}]: RuntimeError: {says}\n'
    )


def of_day(rank: int) -> str:
    """Lines that begin with the time of the day, the hour of which is no rank."""
    return "".join(f"19:34:{step:02d} rank {rank}: step {step} loss 1.{step}\n" for step in range(6))


def test_the_hour_of_a_time_is_no_label_of_srun(incident_of: Investigated) -> None:
    lines = "".join(f"19:34:{second:02d} step {second} of 60\n" for second in range(20))
    assert style_of(lines.encode()) == ""
    labelled = "".join(f"{rank}: 19:34:{second:02d} step {second}\n" for second in range(10) for rank in (0, 1))
    assert style_of(labelled.encode()) == style_of(labelled.replace(": ", ":").encode()) == "srun"
    logs = {f"logs__job_0__attempt_0__{rank}__stdout": lines for rank in range(4)}
    assert incident_of(**logs).ranks_seen == (0, 1, 2, 3)


@pytest.mark.parametrize(("inside", "culprit"), [("all_reduce", (4,)), ("broadcast", ())])
def test_the_one_that_a_ring_cannot_send_to_is_named(
    incident_of: Investigated, inside: str, culprit: tuple[int, ...]
) -> None:
    says = [TIMED_OUT.format("send"), CLOSED, TIMED_OUT.format("recv"), TIMED_OUT.format("recv"), CLOSED]
    logs = {f"worker_rank{rank}": of_day(rank) + raised(rank, said, inside=inside) for rank, said in enumerate(says)}
    assert incident_of(**logs).culprit.ranks == culprit


def test_a_ring_of_some_of_the_ranks_says_nothing_of_the_numbers_of_all(incident_of: Investigated) -> None:
    says = [TIMED_OUT.format("send"), TIMED_OUT.format("recv"), TIMED_OUT.format("recv"), TIMED_OUT.format("recv")]
    logs = {f"worker_rank{rank}": of_day(rank) + raised(rank, said, 40 + rank % 2) for rank, said in enumerate(says)}
    assert not any("ring" in reason.text for reason in incident_of(**logs).culprit.reasons)


def test_a_rank_whose_key_is_not_in_the_store_is_the_missing_one(incident_of: Investigated) -> None:
    says = "wait timeout after 60000ms, keys: /default_pg/0//cpu//0/3"
    logs = {f"worker_rank{rank}": raised(rank, says, inside="init_process_group") for rank in range(3)}
    assert incident_of(**logs).culprit.ranks == (3,)


KEY = "wait timeout after 60000ms, keys: /default_pg/0//cpu//0/{}"


@pytest.mark.parametrize(
    ("world", "waiting", "culprit"),
    [(4, (2,), (2,)), (5, (2,), (4,)), (5, (0, 1, 2, 3), (4,))],
    ids=["there are four", "there are five", "all wait for the fifth"],
)
def test_who_alone_waits_for_a_rank_that_does_not_exist_counts_too_many(
    incident_of: Investigated, world: int, waiting: tuple[int, ...], culprit: tuple[int, ...]
) -> None:
    said = {rank: KEY.format(4) if rank in waiting else TIMED_OUT.format("recv") for rank in range(4)}
    logs = {
        f"worker_rank{rank}": of_day(rank) + f"rank {rank} of {world} starts\n" + raised(rank, said[rank])
        for rank in range(4)
    }
    assert incident_of(**logs).culprit.ranks == culprit


def test_ranks_that_could_not_connect_accuse_nobody(incident_of: Investigated) -> None:
    retry = GLOO + "debug_logger.cc:9] ERROR failed to connect, willRetry={}, retry={}, retryLimit=3, rank=0, size=4, " \
        "local=[127.0.0.1]:4829, remote=[127.0.0.1]:3115, error=SO_ERROR: Connection refused\n"  # fmt: skip
    failed = "RuntimeError: Gloo connectFullMesh failed with " + GLOO + "pair.cc:152] timed out connecting\n"
    ready = {f"worker_rank{rank}": of_day(rank) for rank in (1, 2, 3)}
    incident = incident_of(worker_rank0=retry.format(1, 1) + retry.format(0, 4) + failed, **ready)
    assert (incident.category, incident.culprit.ranks) == ("network", ())


def test_the_node_whose_agent_alone_was_told_to_stop_is_named(incident_of: Investigated) -> None:
    told = (
        "W1122 19:43:27.796000 534 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 825 closing signal SIGTERM\n"
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 534 got signal: 15\n"
    )
    failed = "E1122 19:43:28.100000 526 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 826) of binary: python\n"
    logs = {
        f"node{node}__logs__job_0__attempt_0__{local}__stderr": f"[rank{2 * node + local}]: ready\n"
        + ("" if node else raised(local, CLOSED))
        for node in (0, 1)
        for local in (0, 1)
    }
    one = incident_of(node0__console=failed, node1__console=told, **logs)
    assert (one.category, one.culprit.ranks) == ("preemption", (2, 3))
    assert incident_of(node0__console=told, node1__console=told, **logs).culprit.ranks == ()


def test_a_rank_that_names_a_cause_comes_before_those_whose_logs_are_not_there(incident_of: Investigated) -> None:
    cause = '[rank2]: Traceback (most recent call last):\n[rank2]:   File "/job/train.py", line 12, in batch\n[rank2]: ShardCorrupt: no valid tokens\n'
    assert incident_of(worker_rank0=of_day(0) + raised(0, CLOSED), worker_rank2=of_day(2) + cause).culprit.ranks == (2,)


def test_ranks_that_waited_before_their_job_was_cancelled_waited_for_one(incident_of: Investigated) -> None:
    dated = "".join(f"11/22/2026 19:38:{second:02d} INFO iteration {second} of 24\n" for second in range(10))
    ended = "slurmstepd-vm: error: *** STEP 3.0 ON node0 CANCELLED AT 2026-11-22T19:38:38 ***\n"
    waited = {f"job-{rank}": dated + raised(rank, TIMED_OUT.format("recv"), inside="barrier") for rank in (1, 2, 3)}
    assert incident_of(**{"job-0": dated + ended}, **waited).culprit.ranks == (0,)


def test_a_clock_of_its_own_ends_no_other_process(incident_of: Investigated) -> None:
    told = "mpirun noticed that process rank 1 with PID 3078 on node gpu-07 exited on signal 14 (SIGALRM).\n"
    others = "".join(raised(rank, CLOSED) for rank in (0, 2))
    incident = incident_of(mpi=others + told)
    assert (incident.culprit.ranks, incident.category) == ((1,), "other")


def test_that_all_tell_of_others_speaks_against_none_of_them(incident_of: Investigated) -> None:
    """The one that stood elsewhere was stopped by its agent, as were two of those that waited for it."""
    agent = "W1122 19:36:45.{}00000 901 torch/distributed/elastic/multiprocessing/api.py:1015] Sending process {} closing signal SIGTERM\n"
    table = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-22_19:36:46\n  host      : node0\n  rank      : 1 (local_rank: 1)\n"
        "  exitcode  : 1 (pid: 502)\n  error_file: <N/A>\n"
    )
    failures = "".join(
        f"[{n}]:\n  time      : 2026-11-22_19:36:46\n  host      : node0\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : -15 (pid: {501 + rank})\n  error_file: <N/A>\n"
        for n, rank in enumerate((0, 2, 3), start=1)
    )
    header = (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n====\ntrain.py FAILED\n----\nFailures:\n"
    )
    said = raised(0, CLOSED) + raised(1, TIMED_OUT.format("recv")) + raised(2, CLOSED)
    said += raised(3, TIMED_OUT.format("recv"), 60, "barrier")
    closing = "".join(agent.format(n, 501 + rank) for n, rank in enumerate((0, 2, 3)))
    assert incident_of(console=said + closing + header + failures + table).culprit.ranks == (3,)


def test_where_connections_are_closed_the_one_at_the_other_end_failed(incident_of: Investigated) -> None:
    logs = {f"worker_rank{rank}": of_day(rank) + raised(rank, CLOSED) for rank in (0, 1, 3)}
    incident = incident_of(worker_rank2=of_day(2) + "license check failed, exiting\n", **logs)
    assert incident.culprit.ranks == (2,)
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 2
