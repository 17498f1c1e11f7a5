"""Who began it where output comes late, agents go away, all ranks die alike, or a rank comes when the others have given up."""

from __future__ import annotations

import msgspec
import pytest

from preflight.investigate.diagnose import diagnose
from preflight.investigate.judge import judge
from preflight.source.logs.naming import named
from preflight.source.logs.opening import sources
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.log import Ending, LogFile, Reading, Who

from .readings import SIGNATURES, files, hit, steps

AGENT = "torch/distributed/elastic/multiprocessing/api.py"
TABLE = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_15:42:31
  host      : node0
  rank      : {rank} (local_rank: {rank})
  exitcode  : 1 (pid: {pid})
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
CLOSED = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:6053"


@pytest.fixture
def incident_of(tmp_path):  # type: ignore[no-untyped-def]
    def investigated(**texts: str) -> Incident:
        for name, text in texts.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".log")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return diagnose([str(tmp_path)]).incident

    return investigated


def failed(rank: int) -> str:
    others = "".join(
        f"[default{one}]:[rank{one}]: Traceback (most recent call last):\n"
        f'[default{one}]:[rank{one}]:   File "/job/train.py", line 20, in step\n[default{one}]:[rank{one}]: RuntimeError: {CLOSED}\n'
        for one in (0, 2)
    )
    return (
        f"[default{rank}]:[rank{rank}]: Traceback (most recent call last):\n"
        f'[default{rank}]:[rank{rank}]:   File "/job/train.py", line 12, in batch\n'
        f"[default{rank}]:[rank{rank}]: AssertionError: labels out of range\n{others}"
        f"W1122 15:42:31.972000 26068 {AGENT}:1015] Sending process 26083 closing signal SIGTERM\n"
        f"E1122 15:42:32.310000 26068 {AGENT}:1002] failed (exitcode: 1) local_rank: {rank} (pid: 26082) of binary: python\n"
    )


def printed(first: int, last: int) -> str:
    return "".join(
        f"[default{rank}]:iter {step}: loss {5.5 - step / 100:.4f}\n"
        for rank in (1, 0, 2)
        for step in range(first, last + 1)
    )


@pytest.mark.parametrize("before", [0, 4])
def test_what_ranks_printed_and_their_agent_held_back_is_no_progress(incident_of, before: int) -> None:  # type: ignore[no-untyped-def]
    console = printed(1, before) + failed(1) + TABLE.format(rank=1, pid=26082) + printed(before + 1, 10)
    incident = incident_of(console=console)
    assert (incident.state, incident.culprit.ranks, incident.category) == ("crashed", (1,), "usercode")
    assert len(incident.attempts) <= 1


def test_an_agent_that_stops_workers_again_is_in_its_next_attempt(incident_of) -> None:  # type: ignore[no-untyped-def]
    once = (
        f"W1122 16:15:25.564000 15964 {AGENT}:1015] Sending process 15970 closing signal SIGTERM\n"
        f"E1122 16:15:25.842000 15964 {AGENT}:1002] failed (exitcode: -9) local_rank: 1 (pid: 15971) of binary: python\n"
    )
    again = (
        f"W1122 16:15:52.151000 15964 {AGENT}:1015] Sending process 16120 closing signal SIGTERM\n"
        f"E1122 16:15:52.408000 15964 {AGENT}:1002] failed (exitcode: 1) local_rank: 2 (pid: 16122) of binary: python\n"
    )
    incident = incident_of(console=once + again + TABLE.format(rank=2, pid=16122))
    assert [one.culprit for one in incident.attempts] == [(1,), (2,)]
    assert incident.culprit.ranks == (2,)


def test_one_that_comes_when_the_others_have_given_up_waiting_is_named() -> None:
    waited = [hit("network.watchdog", rank, 50, 640.0, fields={"timeout": 600_000}) for rank in (0, 1)]
    reading = Reading(files=files(3, per_node=3), world_size=3, hits=(*waited, hit("network.closed", 2, 50, 641.0)),
                      steps=steps(range(3), range(9)))  # fmt: skip
    assert judge(reading, SIGNATURES).culprit.ranks == (2,)
    alone = msgspec.structs.replace(reading, world_size=4, files=files(4, per_node=4))
    assert judge(alone, SIGNATURES).culprit.ranks == (3,)


def test_all_ranks_that_crash_alike_name_nobody() -> None:
    ends = tuple(
        Ending(about=Who(rank=rank), code=-11, teller="torchrun", file=0, line=90 + rank, time=60.0)
        for rank in range(4)
    )
    console = LogFile(index=0, path="console.log", kind="text", lines=99)
    incident = judge(Reading(files=(console,), world_size=4, endings=ends), SIGNATURES)
    assert incident.culprit.ranks == ()
    assert incident.culprit.reason is not None
    assert incident.culprit.reason.startswith("nobody in particular")
    others = (*ends[:1], *(msgspec.structs.replace(end, code=-15) for end in ends[1:]))
    assert judge(Reading(files=(console,), world_size=4, endings=others), SIGNATURES).culprit.ranks == (0,)


def test_a_node_whose_agent_falls_silent_is_named_where_the_others_find_the_store_gone(incident_of) -> None:  # type: ignore[no-untyped-def]
    said = "[node{node}] {rank} started, world size 4\n"
    gone = (
        "W1122 16:11:16.183000 13522 torch/distributed/elastic/multiprocessing/api.py:1015] Sending process 1 closing signal SIGTERM\n"
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. "
        "Did the remote server shutdown or crash?\n"
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.\n"
    )
    told = "Traceback (most recent call last):\n[rank{rank}]: RuntimeError: " + CLOSED + "\n"
    logs = {
        f"node{node}__logs__job_0__attempt_0__{local}__stderr": said.format(node=node, rank=2 * node + local)
        + f"[rank{2 * node + local}]: "
        + told.format(rank=2 * node + local)
        for node in (0, 1)
        for local in (0, 1)
    }
    incident = incident_of(node0__console=gone, node1__console="starting\n", **logs)
    assert (incident.culprit.ranks, incident.culprit.nodes) == ((2, 3), ("node1",))


def test_a_job_that_is_ended_because_it_hung_is_no_fault_of_the_scheduler(incident_of) -> None:  # type: ignore[no-untyped-def]
    def of(rank: int) -> str:
        return f"{rank}: [rank{rank}]: RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete\n"

    lines = "".join(f"{rank}: step {step} loss 1.{step}\n" for step in range(6) for rank in range(4))
    ended = "0: slurmstepd-node7: error: *** STEP 9.0 ON node7 CANCELLED AT 2026-11-22T16:17:36 ***\n"
    hung = incident_of(slurm=lines + of(0) + of(1) + of(3) + ended)
    assert hung.culprit.ranks == (2,)


def test_models_that_differ_are_told_by_a_rank_and_accuse_neither(incident_of) -> None:  # type: ignore[no-untyped-def]
    line = "RuntimeError: DDP expects same model across all ranks, but Rank {} has 2247 params, while rank 0 has inconsistent {} params.\n"
    one = incident_of(train=line.format(3, 0))
    assert (one.culprit.ranks, one.first_failure.rank if one.first_failure else None) == ((), 3)
    most = incident_of(train="".join(line.format(rank, 0) for rank in (1, 2, 3)))
    assert most.culprit.ranks == (0,)


def test_files_given_one_by_one_keep_what_their_folders_tell(tmp_path) -> None:  # type: ignore[no-untyped-def]
    paths = [tmp_path / f"node{node}" / "logs" / "job_0" / "attempt_0" / "1" / "stderr.log" for node in (0, 1)]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text("x\n")
    assert [named(one.name).who.node for one in sources(paths)[0]] == ["node0", "node1"]
    assert len(sources(paths[:1])[0][0].name.split("/")) == 4


@pytest.mark.parametrize(("path", "node"), [("run/worker_rank2.log", None), ("run/worker2/rank_5.log", "worker2")])
def test_the_name_of_a_rank_is_no_node(path: str, node: str | None) -> None:
    assert named(path).who.node == node


def test_two_that_were_killed_at_once_are_both_named_and_one_that_its_launcher_killed_is_not(incident_of) -> None:  # type: ignore[no-untyped-def]
    entry = "[{n}]:\n  time      : 2026-11-22_15:42:31\n  host      : node0\n  rank      : {rank} (local_rank: {rank})\n" \
        "  exitcode  : -9 (pid: {pid})\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID {pid}\n"  # fmt: skip
    head = TABLE.partition("Root Cause")[0]
    table = (
        head
        + "Failures:\n"
        + entry.format(n=1, rank=4, pid=504)
        + "Root Cause (first observed failure):\n"
        + entry.format(n=0, rank=1, pid=501)
    )
    steps_of = "".join(f"[default{rank}]:step {step} loss 1.0\n" for step in range(4) for rank in range(6))
    first = (
        f"E1122 15:42:31.310000 900 {AGENT}:1002] failed (exitcode: -9) local_rank: 1 (pid: 501) of binary: python\n"
    )
    assert incident_of(console=steps_of + first + table).culprit.ranks == (1, 4)
    closing = f"W1122 15:42:31.100000 900 {AGENT}:1015] Sending process 504 closing signal SIGTERM\n"
    assert incident_of(console=steps_of + closing + first + table).culprit.ranks == (1,)


def test_the_line_of_the_program_that_raises_is_no_second_rank(incident_of) -> None:  # type: ignore[no-untyped-def]
    spawned = (
        "-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3/site-packages/torch/multiprocessing/spawn.py", line 95, in _wrap\n    fn(i, *args)\n'
        '  File "/job/data.py", line 12, in item\n    raise OSError("image file is truncated (12 bytes not processed)")\n'
        "OSError: image file is truncated (12 bytes not processed)\n"
    )
    lines = "".join(f"INFO:train:epoch 0 batch {step}/12 loss=2.3\n" for step in range(8)) + "world size 2\n"
    assert incident_of(train=lines + spawned).culprit.ranks == (1,)


def test_what_says_who_threw_is_read_behind_the_word_of_the_runtime(incident_of) -> None:  # type: ignore[no-untyped-def]
    thrown = (
        "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG ID 0 PG GUID 0(default_pg) Rank 2] "
        "Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n"
    )
    assert incident_of(log=thrown).culprit.ranks == (2,)


def test_the_first_process_that_mpirun_saw_end_is_named(incident_of) -> None:  # type: ignore[no-untyped-def]
    told = (
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n  Process name: [[15284,1],35]\n  Exit code:    255\n"
    )
    assert incident_of(log=told).culprit.ranks == (35,)


def test_processes_without_ranks_that_fail_alike_are_not_counted_as_none(incident_of) -> None:  # type: ignore[no-untyped-def]
    header = 'Traceback (most recent call last):\n  File "/opt/app/train.py", line 9, in <module>\n    main()\n'
    full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {} has a total capacity of 79.11 GiB of which 1.11 GiB is free.\n"
    culprit = incident_of(log="step 1 loss 2.0\n" + 2 * header + full.format(0) + full.format(1)).culprit
    assert not culprit.ranks
    assert "all processes that write into the same file name the same cause" in culprit.reasons[0].text


BEGUN = "".join(f"cn{rank // 2}-worker: up as rank {rank} of 4\n" for rank in range(4))
WENT_ON = "".join(f"cn{line % 2}-worker: tick {line} of the run\n" for line in range(24))


def lost(*ranks: int) -> str:
    return "".join(
        f'[rank{one}]: Traceback (most recent call last):\n[rank{one}]:   File "/job/train.py", line 20, in step\n'
        f"[rank{one}]: RuntimeError: {CLOSED}\n"
        for one in ranks
    )


def test_who_says_nothing_is_named_behind_the_beginning_of_a_program(incident_of) -> None:  # type: ignore[no-untyped-def]
    assert incident_of(console=BEGUN + WENT_ON + lost(0, 3, 1)).culprit.ranks == (2,)


@pytest.mark.parametrize("before", ["", WENT_ON, BEGUN])
def test_who_says_nothing_in_what_may_be_quoted_is_not_named(incident_of, before: str) -> None:  # type: ignore[no-untyped-def]
    assert incident_of(console=before + lost(0, 3, 1)).culprit.ranks == ()


def of_process(node: int, pid: int, says: str) -> str:
    label = f"(Trainer pid={pid}, ip=10.1.0.{node}) "
    lines = ("Traceback (most recent call last):", '  File "/job/train.py", line 20, in step', says)
    return "".join(f"{label}{line}\n" for line in lines)


def test_the_only_node_that_names_a_cause_is_named_where_nothing_tells_a_rank(incident_of) -> None:  # type: ignore[no-untyped-def]
    told = of_process(2, 7102, "KeyError: 'pixels'") + "".join(
        of_process(node, 7100 + node + 10 * place, f"RuntimeError: {CLOSED}")
        for node, place in ((1, 0), (1, 1), (2, 1))
    )
    incident = incident_of(console=told)
    assert (incident.culprit.ranks, incident.culprit.nodes) == ((), ("10.1.0.2",))


def test_no_node_is_named_where_several_name_a_cause(incident_of) -> None:  # type: ignore[no-untyped-def]
    told = of_process(2, 7102, "KeyError: 'pixels'") + of_process(1, 7101, "KeyError: 'pixels'")
    assert incident_of(console=told).culprit.nodes == ()


def test_who_does_not_come_is_named_where_the_one_that_keeps_the_store_gives_up(incident_of) -> None:  # type: ignore[no-untyped-def]
    raised = "torch.distributed.DistStoreError: {}\n"
    told = "".join(
        f'worker-{rank} | Traceback (most recent call last):\nworker-{rank} |   File "/job/train.py", line 20, in main\n'
        f"worker-{rank} | {raised.format(says)}"
        for rank, says in (
            (1, "wait timeout after 18000ms, keys: /default_pg/0//cpu//0/0"),
            (0, "Timed out after 19 seconds waiting for clients. 2/3 clients joined."),
        )
    )
    ends = "".join(f"worker-{rank} exited with code {code}\n" for rank, code in ((1, 1), (0, 1), (2, 143)))
    assert incident_of(console=told + ends).culprit.ranks == (2,)


@pytest.mark.parametrize(
    ("came", "left"), [("3, 0, 1", (2,)), ("5, 0, 2, 3", (1, 4)), ("0, 1", ()), ("4, 1", ()), ("0, 1000000000000", ())]
)
def test_who_is_not_among_those_that_came_is_named(incident_of, came: str, left: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    told = (
        "WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
        f"waiting for remainder of ranks for more than 60 seconds. Stalled ops: allreduce.fc.weight [ready ranks: {came}]\n"
    )
    assert incident_of(console=told).culprit.ranks == left


def test_a_call_of_which_the_number_alone_is_told_differs_from_none(incident_of) -> None:  # type: ignore[no-untyped-def]
    timed_out = (
        "[rank{0}]:[E309 09:55:29.3{0:02d} ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=70, OpType=REDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600034 milliseconds before "
        "timing out.\n"
    )
    alone = (
        "[rank3]:[E309 09:55:46.99 ProcessGroupNCCL.cpp:1709] [PG 0 (default_pg) Rank 3] Timeout at NCCL work: 70, "
        "last enqueued NCCL work: 82, last completed NCCL work: 69.\n"
    )
    assert incident_of(console="".join(map(timed_out.format, (4, 2, 1, 5, 0))) + alone).culprit.ranks == ()
