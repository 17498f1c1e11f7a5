"""Who began it where ranks do not wait for each other, and where a second start was appended to the files of the first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

Investigated = Callable[..., Incident]
CLOSED = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:6053"
TIMED_OUT = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
AGENT = "1122 19:34:{}.331000 900 torch/distributed/elastic/multiprocessing/api.py:1028] "


@pytest.fixture
def incident_of(tmp_path: Path) -> Investigated:
    def investigated(**texts: str) -> Incident:
        for name, text in texts.items():
            (tmp_path / f"{name}.log").write_text(text)
        return diagnose([str(tmp_path)]).incident

    return investigated


def steps(first: int, last: int, minute: int = 30, label: str = "") -> str:
    return "".join(
        f"{label}2026-11-22 19:{minute}:{at:02d},100 - INFO - step {at} loss 1.{at}\n" for at in range(first, last)
    )


def raised(says: str, label: str = "", line: int = 12, error: str = "RuntimeError") -> str:
    lines = (
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 90, in <module>',
        "    main()",
        f'  File "/job/train.py", line {line}, in main',
        "    work(x)",
        f"{error}: {says}",
    )
    return "".join(f"{label}{text}\n" for text in lines)


def test_a_rank_dies_and_the_others_go_on_for_a_while(incident_of: Investigated) -> None:
    died = raised(
        "'utf-8' codec can't decode byte 0xff in position 8: invalid start byte",
        "[default2]:",
        error="UnicodeDecodeError",
    )
    stops = "".join(f"W{AGENT.format(40)}Sending process {pid} closing signal SIGTERM\n" for pid in (901, 902))
    end = f"E{AGENT.format(41)}failed (exitcode: 1) local_rank: 2 (pid: 903) of binary: /usr/bin/python\n"
    incident = incident_of(
        console=steps(0, 5, label="[default1]:") + died + steps(5, 12, label="[default1]:") + stops + end
    )
    assert (incident.category, incident.culprit.ranks) == ("data", (2,))


def test_what_a_rank_caught_is_mended_where_it_went_on(incident_of: Investigated) -> None:
    caught = raised(
        "'utf-8' codec can't decode byte 0xff in position 8: invalid start byte", error="UnicodeDecodeError"
    )
    incident = incident_of(rank_0=steps(0, 12), rank_1=steps(0, 5) + caught + steps(5, 12))
    assert incident.category == "none"


def test_a_container_that_dies_is_told_by_compose(incident_of: Investigated) -> None:
    head = "".join(f"worker-{rank}  | joins, 4 in all\n" for rank in (1, 3, 0, 2))
    ends = "".join(f"worker-{rank} exited with code 143\n" for rank in (0, 1, 2))
    text = (
        head + steps(0, 5, label="worker-1  | ") + "worker-3 exited with code 137\n" + steps(5, 9, label="worker-1  | ")
    )
    incident = incident_of(compose=text + ends)
    assert (incident.category, incident.culprit.ranks, incident.world_size) == ("oom", (3,), 4)


def test_an_error_of_a_remote_call_is_of_the_process_that_was_called(incident_of: Investigated) -> None:
    inner = raised("3 tensors, 2 are wanted", line=22)
    logs = {
        f"rank_{rank}": steps(0, 5)
        + raised(f"RuntimeError: On WorkerInfo(id=0, name=ps):\nRuntimeError('3 tensors')\n{inner}")
        for rank in (1, 2, 3)
    }
    incident = incident_of(rank_0="2026-11-22 19:30:00,100 - INFO - server is up\n", **logs)
    assert (incident.category, incident.culprit.ranks) == ("usercode", (0,))


def test_a_call_that_is_not_answered_is_a_wait(incident_of: Investigated) -> None:
    says = "RPCErr:1:RPC ran for more than set timeout (6000 ms) and will now be marked with an error"
    incident = incident_of(rank_1=steps(0, 5) + raised(says))
    assert (incident.category, incident.signature) == ("network", "network.rpc-timeout")


@pytest.mark.parametrize("alone", [1, 2])
def test_the_one_that_waits_for_a_call_of_its_own(incident_of: Investigated, alone: int) -> None:
    logs = {
        f"rank_{rank}": steps(0, 5) + (raised(TIMED_OUT, line=29) if rank == alone else raised(CLOSED, line=24))
        for rank in range(3)
    }
    assert incident_of(**logs).culprit.ranks == (alone,)


def of_start(minute: int, culprit: int | None, says: str, error: str) -> dict[str, str]:
    """The files of one start of three ranks, of which the first alone tells its steps."""
    done = f"2026-11-22 19:{minute}:50,100 - INFO - training finished\n" if culprit is None else ""
    ends = {rank: raised(says, error=error) if rank == culprit else raised(CLOSED) for rank in range(3)}
    first = {0: steps(0, 8, minute) + done}
    return {f"rank_{rank}": first.get(rank, "") + (ends[rank] if culprit is not None else "") for rank in range(3)}


@pytest.mark.parametrize(("second", "culprits", "category"), [(2, [(1,), (2,)], "data"), (None, [(1,), ()], "none")])
def test_a_second_start_that_was_appended(
    incident_of: Investigated, second: int | None, culprits: list[tuple[int, ...]], category: str
) -> None:
    one = of_start(10, 1, "index 12 is out of bounds for dimension 0 with size 10", "IndexError")
    other = of_start(20, second, "'utf-8' codec can't decode byte 0xff in position 8", "UnicodeDecodeError")
    incident = incident_of(**{name: one[name] + other[name] for name in one})
    assert [attempt.culprit for attempt in incident.attempts] == culprits
    assert incident.category == category


def test_what_was_caught_again_and_again_is_mended_near_the_end_as_well(incident_of: Investigated) -> None:
    caught = "2026-11-22 19:30:01,100 - ERROR - upload failed\n" + raised(
        "[Errno 104] Connection reset by peer", error="ConnectionResetError"
    )
    body = "".join(steps(at, at + 5) + caught for at in (0, 5, 10)) + steps(15, 16)
    incident = incident_of(rank_0=steps(0, 16) + "2026-11-22 19:30:50,100 - INFO - training finished\n", rank_1=body)
    assert incident.category == "none"


def test_a_checkpoint_names_the_rank_that_could_not_be_written(incident_of: Investigated) -> None:
    def says(rank: int) -> str:
        label = f"[default{rank}]:[rank{rank}]: "
        first = raised(
            "CheckpointException ranks:dict_keys([2])",
            label,
            error="torch.distributed.checkpoint.api.CheckpointException",
        )
        below = (
            "Traceback (most recent call last): (RANK 2)",
            '  File "/env/torch/distributed/checkpoint/filesystem.py", line 3, in write',
            "    f.write(x)",
        )
        return first + "".join(f"{label}{text}\n" for text in (*below, "OSError: [Errno 27] File too large"))

    incident = incident_of(
        console="".join(f"[default0]:step {at} loss 1.{at}\n" for at in range(5)) + says(0) + says(1) + says(3)
    )
    assert (incident.category, incident.culprit.ranks) == ("checkpoint", (2,))


def test_whoever_was_called_is_gone(incident_of: Investigated) -> None:
    gone = raised("eof (this error originated at tensorpipe/transport/shm/connection_impl.cc:259)")
    logs = {f"rank_{rank}": steps(0, 5) + gone for rank in (1, 2, 3)}
    incident = incident_of(rank_0="2026-11-22 19:30:00,100 - INFO - update 4 applied\n", **logs)
    assert (incident.category, incident.culprit.ranks) == ("network", (0,))


def agent_of(first: int, says: str, error: str) -> str:
    """The console of one of two agents on the same machine, whose ranks begin at ``first``."""
    died = "".join(raised(says, f"[default{local}]:", error=error) for local in (0, 1))
    told = f"E{AGENT.format(41)}failed (exitcode: 1) local_rank: 1 (pid: {911 + first}) of binary: /usr/bin/python\n"
    entry = "  time      : 2026-11-22_19:34:41\n  host      : localhost\n  rank      : {} (local_rank: {})\n  exitcode  : 1 (pid: {})\n"
    other, root = entry.format(first, 0, 910 + first), entry.format(first + 1, 1, 911 + first)
    rule = "-" * 60 + "\n"
    head = "=" * 60 + "\ntrain.py FAILED\n" + rule + "Failures:\n[1]:\n" + other + rule
    return died + told + head + "Root Cause (first observed failure):\n[0]:\n" + root + "=" * 60 + "\n"


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_two_agents_on_one_machine(incident_of: Investigated, names: tuple[str, str]) -> None:
    missing = agent_of(2, "No module named 'kernels'", "ModuleNotFoundError")
    waits = agent_of(0, TIMED_OUT, "RuntimeError")
    incident = incident_of(**{names[0]: missing, names[1]: waits})
    assert (incident.category, incident.culprit.ranks) == ("environment", (2, 3))


@pytest.mark.parametrize(
    ("ends", "category"),
    [
        ("worker-1 exited with code 0\nboard-1 exited with code 137\n", "none"),
        ("worker-1 exited with code 0\nboard-1 exited with code 143\n", "none"),
        ("fetch-1 exited with code 0\nworker-1 exited with code 137\n", "oom"),
        ("worker-1 exited with code 0\nworker-2 exited with code 137\n", "oom"),
    ],
)
def test_what_compose_stops_behind_a_training_that_ended_well_did_not_fail(
    incident_of: Investigated, ends: str, category: str
) -> None:
    trained = steps(0, 5, label="worker-1  | ") + steps(0, 5, label="worker-2  | ")
    assert incident_of(compose="fetch-1  | done\nboard-1  | up\n" + trained + ends).category == category
