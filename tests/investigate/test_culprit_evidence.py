"""What tells who began it where no line names a cause: who stood elsewhere, who left early, who went on after an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident

STEP = "2026-03-01 10:00:{second:02d},100 | INFO | step {step}/40 loss {loss:.4f} step_time 1.000s"
GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/"
WAITED = GLOO + "unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
CLOSED = GLOO + "pair.cc:553] Connection closed by peer [10.0.0.2]:4711"


def step(number: int) -> str:
    return STEP.format(second=number, step=number, loss=3 - 0.05 * number)


def raised(line: int, last: str) -> list[str]:
    return [
        "Traceback (most recent call last):",
        f'  File "/workspace/train.py", line {line}, in train',
        "    reduce(values)",
        '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in all_reduce',
        "    work.wait()",
        last,
    ]


def judged(folder: Path, logs: dict[str, list[str]]) -> Incident:
    for name, lines in logs.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    incident = diagnose([str(folder)]).incident
    assert incident is not None
    return incident


def test_the_rank_that_waited_at_another_line_is_the_suspect(tmp_path: Path) -> None:
    made = [step(number) for number in range(1, 12)]
    logs = {f"rank{rank}.log": [*made, *raised(140 if rank != 2 else 171, WAITED)] for rank in range(4)}
    incident = judged(tmp_path, logs)
    assert incident.culprit.ranks == (2,)
    assert any("stood at /workspace/train.py:171" in one.text for one in incident.culprit.reasons)


def test_who_stands_elsewhere_in_a_call_of_another_group_may_have_come_to_its_own(tmp_path: Path) -> None:
    made = [step(number) for number in range(1, 12)]
    for mine, culprit in (("reduce(values, group=shards)", ()), ("reduce(sums, group=columns)", (2,))):
        logs = {}
        for rank in range(4):
            code = mine if rank == 2 else "reduce(values, group=columns)"
            lines = raised(171 if rank == 2 else 140, WAITED)
            logs[f"rank{rank}.log"] = [*made, *(line.replace("reduce(values)", code) for line in lines)]
        assert judged(tmp_path, logs).culprit.ranks == culprit


def test_who_has_no_line_in_an_excerpt_is_no_suspect(tmp_path: Path) -> None:
    told = [f"[rank{rank}]: {line}" for rank in (0, 1, 3) for line in raised(140, WAITED)]
    assert judged(tmp_path, {"run.log": told}).culprit.ranks == ()
    counted = [f"[rank{rank}]: {step(number)}" for number in range(1, 12) for rank in (0, 1, 3)]
    assert judged(tmp_path, {"run.log": counted + told}).culprit.ranks == (2,)


def test_stages_that_wait_at_lines_of_their_own_point_to_nobody(tmp_path: Path) -> None:
    made = [step(number) for number in range(1, 12)]
    logs = {f"rank{rank}.log": [*made, *raised(140 + rank // 2, WAITED)] for rank in range(4)}
    assert judged(tmp_path, logs).culprit.ranks == ()


def test_who_had_come_to_its_end_left_the_others_waiting(tmp_path: Path) -> None:
    logs = {f"rank{rank}.log": [*map(step, range(1, 17)), *raised(140, WAITED)] for rank in (0, 1, 2)}
    logs["rank3.log"] = [*map(step, range(1, 17)), "2026-03-01 10:00:17,000 | INFO | training finished"]
    assert judged(tmp_path, logs).culprit.ranks == (3,)


def test_an_error_that_was_outlived_right_before_the_end_is_suspect(tmp_path: Path) -> None:
    swallowed = [
        "2026-03-01 10:00:12,000 | ERROR | metric of step 12 could not be computed, going on without it",
        "Traceback (most recent call last):",
        '  File "/workspace/train.py", line 99, in measure',
        "    scores @ weights",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 3x4)",
        step(13),
        step(14),
    ]
    made = [step(number) for number in range(1, 13)]
    logs = {f"rank{rank}.log": [*made, step(13), *raised(140, CLOSED)] for rank in (0, 2, 3)}
    logs["rank1.log"] = [*made, *swallowed]
    incident = judged(tmp_path, logs)
    assert incident.culprit.ranks == (1,)
    assert any("told of an error and went on" in one.text for one in incident.culprit.reasons)


def test_an_undated_end_of_a_quiet_rank_is_not_outlived_by_the_steps_of_another(tmp_path: Path) -> None:
    """Only rank 0 tells steps and dates: what rank 2 says without a time stands behind its first line, and may be minutes later."""
    quiet = "2026-03-01 10:00:00,000 | INFO | no checkpoint, starting from scratch"
    last = "OSError: [Errno 5] Input/output error: '/data/shards/train-00011.tar'"
    logs = {
        "rank0.log": [quiet, *map(step, range(1, 30)), *raised(140, WAITED)],
        "rank1.log": [quiet, *raised(140, CLOSED)],
        "rank2.log": [quiet, *raised(127, last)],
        "rank3.log": [quiet, *raised(140, CLOSED)],
    }
    assert judged(tmp_path, logs).culprit.ranks == (2,)


def labelled(rank: int, lines: list[str]) -> list[str]:
    return [f"[rank{rank}]: {line}" for line in lines]


@pytest.mark.parametrize("master", [False, True])
def test_pods_are_numbered_as_their_ranks_are(tmp_path: Path, master: bool) -> None:
    """The logs of all pods in one file, as `kubectl logs --prefix` prints them."""
    names = ["train-master-0", "train-worker-0", "train-worker-1", "train-worker-2"]
    pods = names if master else [f"train-worker-{rank}" for rank in range(4)]
    own = raised(61, "ValueError: could not convert string to float: 'n/a'")
    logs = [f"[pod/{pod}/pytorch] {step(number)}" for number in range(1, 9) for pod in pods]
    for rank, pod in enumerate(pods):
        logs += [f"[pod/{pod}/pytorch] {line}" for line in (own if rank == 2 else raised(140, CLOSED))]
    incident = judged(tmp_path, {"kubectl.log": logs})
    assert (incident.culprit.ranks, incident.culprit.nodes) == ((2,), (pods[2],))


def test_a_silent_pod_is_numbered_as_those_are_that_say_their_rank(tmp_path: Path) -> None:
    steps = [step(number) for number in range(1, 9)]
    logs = {f"train-worker-{rank}.log": [*steps, *labelled(rank, raised(140, CLOSED))] for rank in (0, 1, 3)}
    incident = judged(tmp_path, {**logs, "train-worker-2.log": steps})
    assert (incident.culprit.ranks, incident.culprit.nodes) == ((2,), ("train-worker-2",))


@pytest.mark.parametrize("ranks", [(0,), (0, 8)], ids=["the first alone", "eight ranks a pod"])
def test_pods_are_no_ranks_where_those_that_speak_do_not_say_so(tmp_path: Path, ranks: tuple[int, ...]) -> None:
    steps = [step(number) for number in range(1, 9)]
    logs = {f"train-worker-{pod}.log": [*steps, *labelled(rank, raised(140, CLOSED))] for pod, rank in enumerate(ranks)}
    silent = {f"train-worker-{pod}.log": steps for pod in range(len(ranks), 3)}
    assert judged(tmp_path, {**logs, **silent}).ranks_seen == ranks


def test_ray_tells_which_process_is_which_rank(tmp_path: Path) -> None:
    told = [
        f"(TorchTrainer pid=40) - (node_id=8f2c, ip=10.0.0.1, pid={4100 + rank}) world_rank={rank}, local_rank={rank}, node_rank=0"
        for rank in range(3)
    ]
    lines = [
        f"(RayTrainWorker pid={4100 + rank}, ip=10.0.0.1) {line}"
        for rank in range(3)
        for line in raised(61, "KeyError: 'labels'" if rank == 1 else CLOSED)
    ]
    assert judged(tmp_path, {"driver.log": [*told, *lines]}).culprit.ranks == (1,)


def test_a_table_whose_ranks_all_ended_in_the_same_second_names_nobody(tmp_path: Path) -> None:
    """An agent looks at its workers in their order: of those that had ended by then the lowest is named the first."""

    def entry(number: int, rank: int) -> list[str]:
        return [
            f"[{number}]:", "  time      : 2024-03-05_07:01:51", "  host      : host-a", f"  rank      : {rank} (local_rank: {rank})",
            f"  exitcode  : 1 (pid: {69811 + rank})", "  error_file: <N/A>",
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        ]  # fmt: skip

    def table(first: int) -> list[str]:
        others = [rank for rank in range(4) if rank != first]
        failures = [line for number, rank in enumerate(others) for line in entry(number + 1, rank)]
        bar, rule = "=" * 60, "-" * 60
        head = ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", bar, "train.py FAILED", rule]
        return [*head, "Failures:", *failures, rule, "Root Cause (first observed failure):", *entry(0, first), bar]

    for first, culprit in ((0, ()), (2, (2,))):
        folder = tmp_path / str(first)
        folder.mkdir()
        assert judged(folder, {"console.log": table(first)}).culprit.ranks == culprit


def test_tracebacks_that_are_written_into_each_other_are_of_several_ranks(tmp_path: Path) -> None:
    """Without labels and without a table of all ranks, one agent names the first to end: it was as all others."""
    head, frame = "Traceback (most recent call last):", '  File "/workspace/train.py", line 61, in load'
    last = "FileNotFoundError: [Errno 2] No such file or directory: '/data/index.json'"
    agent = "E0301 10:00:12.368000 10 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 102930) of binary: /opt/bin/python"
    incident = judged(tmp_path, {"train.err": [head, head, frame, head, frame, frame, last, last, last, agent]})
    assert incident.culprit.ranks == ()
    assert (incident.culprit.reason or "").startswith("nobody in particular")
    assert incident.first_failure is not None
    assert incident.first_failure.rank == 0


def test_one_traceback_behind_another_is_of_one_rank(tmp_path: Path) -> None:
    own = raised(61, "KeyError: 'labels'")
    agent = "E0301 10:00:12.368000 10 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 2 (pid: 102930) of binary: /opt/bin/python"
    assert judged(tmp_path, {"train.err": [*own, agent]}).culprit.ranks == (2,)


def test_all_ranks_that_were_interrupted_have_no_culprit(tmp_path: Path) -> None:
    lines = [f"[rank{rank}]: {line}" for rank in range(4) for line in raised(140, "KeyboardInterrupt")]
    agent = "E0301 10:00:12.368000 10 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -2) local_rank: 0 (pid: 1029) of binary: /opt/bin/python"
    incident = judged(tmp_path, {"train.err": [*lines, agent]})
    assert (incident.category, incident.culprit.ranks) == ("preemption", ())
    assert any("all 4 ranks were interrupted" in one.text for one in incident.culprit.reasons)


def test_folders_of_the_second_node_alone_are_of_its_ranks(tmp_path: Path) -> None:
    """Its agent tells which ranks its places are; the other node lost its connection before it wrote a folder."""
    last = "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/corpus/index.json'"
    table = [
        line
        for number, rank in ((1, 3), (0, 2))
        for line in (
            f"[{number}]:", "  time      : 2024-03-05_07:01:51", "  host      : node1", f"  rank      : {rank} (local_rank: {rank - 2})",
            f"  exitcode  : 1 (pid: {700 + rank})", "  error_file: <N/A>", "  traceback : To enable traceback see: https://pytorch.org",
        )
    ]  # fmt: skip
    failed = [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "=" * 60,
        "train.py FAILED",
        "-" * 60,
        "Failures:",
    ]
    told = [*failed, *table[:7], "-" * 60, "Root Cause (first observed failure):", *table[7:], "=" * 60]
    for place in (0, 1):
        folder = tmp_path / "node1" / "logs" / "job_0" / "attempt_0" / str(place)
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text("\n".join(raised(35, last)) + "\n", encoding="utf-8")
    (tmp_path / "node0").mkdir()
    lost = "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
    incident = judged(tmp_path, {"node1/console.log": told, "node0/console.log": raised(909, lost)})
    assert incident.culprit.ranks == (2, 3)


def test_the_first_key_accuses_nobody_where_a_node_failed_by_itself(tmp_path: Path) -> None:
    missing = ["Traceback (most recent call last):", '  File "/workspace/pretrain.py", line 4, in <module>',
               "    import apex_kernels", "ModuleNotFoundError: No module named 'apex_kernels'"]  # fmt: skip
    waited = ["starting, 4 processes, backend gloo", *raised(31, "torch.distributed.DistStoreError: wait timeout after 20000ms, "
              "keys: /default_pg/0//cpu//0/0")]  # fmt: skip
    told = [f"dgx-b7: {line}" for line in missing] + [f"dgx-b6: {line}" for line in waited]
    alone = judged(tmp_path, {"pdsh.log": told}).culprit
    assert (alone.ranks, alone.nodes) == ((), ("dgx-b7",))
    (tmp_path / "pdsh.log").unlink()
    by_rank = [f"[rank{rank}]: {line}" for rank in (1, 2, 3) for line in waited]
    assert judged(tmp_path, {"run.log": by_rank}).culprit.ranks == (0,)
