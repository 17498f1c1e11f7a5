"""Who began it where each node has a console of its own: nodes without a table, without a name, and clocks that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

API = "torch/distributed/elastic/multiprocessing/api.py"
CLOSED = "pair.cc:553] Connection closed by peer [127.0.0.1]:3992"
WAITED = "unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"


def clock(second: int, behind: int = 0) -> str:
    told = 36600 + second - behind
    return f"{told // 3600:02}:{told // 60 % 60:02}:{told % 60:02}"


def steps(last: int, behind: int = 0) -> str:
    return "".join(
        f"[default{local}]:2026-11-20 {clock(step, behind)},000 INFO step={step} loss={3 - step / 10:.4f}\n"
        for step in range(last)
        for local in range(2)
    )


def gloo(first: int, local: int, says: str) -> str:
    lead = f"[default{local}]:[rank{first + local}]:"
    return (
        f'{lead} Traceback (most recent call last):\n{lead}   File "/app/train.py", line 37, in <module>\n'
        f"{lead}     loss.backward()\n"
        f"{lead} RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/{says}\n"
    )


def table(first: int, host: str, codes: tuple[int, ...], second: int, behind: int = 0) -> str:
    """What an agent prints of its two workers, the first to fail the last that it did not have to stop."""
    stamp = clock(second, behind)
    order = sorted(range(len(codes)), key=lambda local: codes[local] != -15)
    entries = [
        f"  time      : 2026-11-20_{stamp}\n  host      : {host}\n  rank      : {first + local} (local_rank: {local})\n"
        f"  exitcode  : {codes[local]} (pid: {900 + first + local})\n  error_file: <N/A>\n"
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
        for local in order
    ]
    stopped = "".join(
        f"W1120 {stamp}.100000 {800 + first} {API}:1028] Sending process {900 + first + local} closing signal SIGTERM\n"
        for local in order
        if codes[local] == -15
    )
    return (
        f"{stopped}E1120 {stamp}.500000 {800 + first} {API}:1002] failed (exitcode: {codes[order[-1]]}) local_rank: {order[-1]} "
        f"(pid: {900 + first + order[-1]}) of binary: python\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "=======================================================\ntrain.py FAILED\n"
        "-------------------------------------------------------\nFailures:\n[1]:\n" + entries[0] +
        "-------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        + entries[1] + "=======================================================\n"
    )  # fmt: skip


def incident_of(folder: Path, consoles: dict[str, str]) -> Incident:
    for name, text in consoles.items():
        (folder / name).write_text(text)
    incident = diagnose([str(folder)]).incident
    assert incident is not None
    return incident


def failing(first: int, host: str, behind: int = 0) -> str:
    says = gloo(first, 0, CLOSED) + gloo(first, 1, CLOSED)
    return steps(6, behind) + says + table(first, host, (1, 1), 9, behind)


@pytest.mark.parametrize(("names", "domain"), [("gn-{}.out", ""), ("gn-{}.log", ".cluster.local"), ("c{}n2.out", "")])
def test_a_console_of_whom_nothing_is_left_is_known_by_those_of_the_others(
    names: str, domain: str, tmp_path: Path
) -> None:
    called = [names.format(number) for number in (11, 12, 17)]
    hosts = [name.partition(".")[0] + domain for name in called]
    consoles = {called[0]: failing(0, hosts[0]), called[1]: failing(2, hosts[1]), called[2]: steps(6, 40)}
    culprit = incident_of(tmp_path, consoles).culprit
    assert (culprit.ranks, culprit.nodes) == ((4, 5), (hosts[2],))


def test_whose_agent_alone_was_told_to_stop_began_it(tmp_path: Path) -> None:
    told = "W1120 10:08:46.000000 802 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down workers\n"
    told += "".join(
        f"W1120 10:08:46.000000 802 {API}:1028] Sending process {pid} closing signal SIGTERM\n" for pid in (902, 903)
    )
    incident = incident_of(tmp_path, {"gn-1.out": failing(0, "gn-1"), "gn-2.out": steps(6, 75) + told})
    assert (incident.category, incident.culprit.ranks) == ("preemption", (2, 3))


def test_agents_that_do_not_know_where_they_run_have_clocks_of_their_own(tmp_path: Path) -> None:
    says = gloo(2, 0, WAITED) + gloo(2, 1, WAITED)
    consoles = {
        "first.log": steps(6) + gloo(0, 1, WAITED) + table(0, "localhost", (-15, 1), 20),
        "second.log": steps(6, 90) + says + table(2, "localhost", (1, 1), 20, 90),
    }
    incident = incident_of(tmp_path, consoles)
    assert (incident.culprit.ranks, incident.nodes_seen) == ((0,), ("first", "second"))


def test_the_first_failure_is_that_of_the_one_that_was_killed_whatever_the_clocks_say(tmp_path: Path) -> None:
    killed = steps(6, -3600) + table(2, "gn-2", (-9, -15), 7, -3600)
    incident = incident_of(tmp_path, {"gn-1.out": failing(0, "gn-1"), "gn-2.out": killed})
    assert incident.first_failure is not None
    assert (incident.culprit.ranks, incident.first_failure.rank) == ((2,), 2)


def test_consoles_of_one_agent_that_was_started_twice_are_not_told_apart(tmp_path: Path) -> None:
    consoles = {f"try{number}.log": failing(0, "localhost", -100 * number) for number in range(2)}
    assert incident_of(tmp_path, consoles).nodes_seen == ("localhost",)


def test_one_that_is_as_silent_as_those_whose_ranks_are_not_known_is_not_named(tmp_path: Path) -> None:
    waited = steps(6) + gloo(0, 0, WAITED) + table(0, "gn-1", (1, -15), 20)
    consoles = {"gn-1.out": waited, "gn-2.out": steps(6, 70), "gn-3.out": steps(6, -30)}
    assert incident_of(tmp_path, consoles).culprit.ranks == ()


@pytest.mark.parametrize(
    "told",
    [
        "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[27407,0],0] on node login2\n"
        "  Remote daemon: [[27407,0],1] on node n07\n",
        "ORTE has lost communication with its daemon located on node:\n\n  hostname:  n07\n",
    ],
)
def test_where_mpirun_lost_its_daemon_is_named(told: str, tmp_path: Path) -> None:
    rule = "-" * 74 + "\n"
    culprit = incident_of(
        tmp_path, {"job.log": rule + told + "\nThis is usually due to a failure of the network.\n" + rule}
    ).culprit
    assert (culprit.ranks, culprit.nodes) == ((), ("n07",))


def test_what_a_program_says_of_a_process_that_it_started_names_its_rank(tmp_path: Path) -> None:
    trace = (
        "Process trainer-{}:\nTraceback (most recent call last):\n"
        '  File "/app/train.py", line 37, in work\n    dist.all_reduce(loss)\n'
        '  File "/venv/torch/distributed/distributed_c10d.py", line 9, in all_reduce\n'
        f"RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/{CLOSED}\n"
    )
    end = "supervisor: trainer-1 (pid 19137) ended with exit code -9; stopping the others\n"
    incident = incident_of(tmp_path, {"run.log": trace.format(0) + trace.format(2) + end})
    assert (incident.culprit.ranks, incident.world_size) == ((1,), 3)
