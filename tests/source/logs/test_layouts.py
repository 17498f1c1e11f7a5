"""Whose a line is, in the layouts that launchers, schedulers and people make."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.source.logs import read_logs
from preflight.source.logs.known_heads import KnownHeads
from preflight.source.logs.naming import label, named
from preflight.source.logs.prefixes import head_of
from preflight.source.logs.styles import style_of
from preflight.vocabulary.log import Who

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
"""What rank 3 (the one of local rank 3 on node n1 where there are nodes) prints."""
FINE = "2024-01-01 12:00:0{} INFO epoch done"


def _of(*rows: tuple[str, str]) -> str:
    return "".join(f"{prefix}{text}\n" for prefix, text in rows)


def _interleaved(prefix: str) -> str:
    """Lines of ranks 0 to 7 in turn, a traceback of rank 3 among them."""
    lines = [(prefix.format(rank), FINE.format(turn)) for turn in range(2) for rank in range(8)]
    trace = [
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 7, in step',
        "    loss.backward()",
        OOM,
    ]
    mixed = [pair for text in trace for pair in ((prefix.format(3), text), (prefix.format(5), FINE.format(9)))]
    return _of(*lines, *mixed)


TRACE = (
    'Traceback (most recent call last):\n  File "/app/train.py", line 7, in step\n    loss.backward()\n' + OOM + "\n"
)
FILLER = FINE.format(1) + "\n"


def _files(pattern: str, others: range = range(4)) -> dict[str, str]:
    return {pattern.format(rank): FILLER + (TRACE if rank == 3 else "") for rank in others}


LAYOUTS: dict[str, tuple[dict[str, str], Who]] = {
    "rank prefix": ({"train.log": _interleaved("[rank{}]: ")}, Who(3)),
    "torchrun's prefix of a node": ({"n.log": _interleaved("[default{}]:")}, Who(None, None, 3)),
    "both prefixes": ({"n.log": _interleaved("[default{0}]:[rank{0}]: ")}, Who(3, None, 3)),
    "old torchrun's prefix": ({"n.log": _interleaved("[{}]:")}, Who(None, None, 3)),
    "srun's label": ({"slurm-12345.out": _interleaved("{}: ")}, Who(3)),
    "srun's padded label": ({"slurm-12345.out": _interleaved("{:>2}: ")}, Who(3)),
    "mpirun's tag": ({"mpi.log": _interleaved("[1,{}]<stderr>:")}, Who(3)),
    "the tag of Open MPI 5": ({"mpi.log": _interleaved("[prterun-gpu-n01-40417@1,{}]<stderr>: ")}, Who(3)),
    "the tag of Open MPI 5 with hosts": (
        {"mpi.log": _interleaved("[1,{0}][gpu-n01:4040{0}]<stderr>: ")},
        Who(3, "gpu-n01", pid=40403),
    ),
    "the tag of Open MPI 5 without them": ({"mpi.log": _interleaved("[1,{}][unknown:unknown]<stderr>: ")}, Who(3)),
    "syslog in its newer form": (
        {"t.log": _interleaved("<134>1 2026-11-28T00:21:0{0}.120Z gpu-n0{0} trainer 900{0} - - ")},
        Who(None, "gpu-n03", pid=9003),
    ),
    "syslog in its newer form with more": (
        {"t.log": _interleaved('<14>1 2026-11-28T00:21:01Z gpu-n01 job[7] - out [meta seq="{0}"] [rank{0}]: ')},
        Who(3, "gpu-n01"),
    ),
    "something before torch's own label": ({"job.log": _interleaved("<job-17/{0}> [rank{0}]: ")}, Who(3)),
    "horovod's tag": ({"hvd.log": _interleaved("[{}]<stderr>:")}, Who(3)),
    "Rank in brackets behind time and level": (
        {"ds.log": _interleaved("[2024-01-01 12:00:00,123] [INFO] [engine.py:88:step] [Rank {}] ")},
        Who(3),
    ),
    "rank with a colon": ({"r.log": _interleaved("[rank: {}] ")}, Who(3)),
    "Rank N and a bar": ({"r.log": _interleaved("Rank {} | ")}, Who(3)),
    "a logger's name and level before the rank": (
        {"t.log": _interleaved("2025-10-31 03:11:02,475 - SimpleTuner - INFO - [rank{}]: ")},
        Who(3),
    ),
    "a viewer's number of the line": ({"v.log": _interleaved("[80746] [rank{}]:")}, Who(3)),
    "ranks behind the name of the first one's file": (
        {"log.txt": FILLER, **_files("log.txt.rank{}", range(1, 4))},
        Who(3),
    ),
    "several words before torch's own label": ({"job.log": _interleaved("node a, slot {0} >> [rank{0}]: ")}, Who(3)),
    "kubectl --prefix": ({"k.log": _interleaved("[pod/llm-worker-{}/pytorch] ")}, Who(None, "llm-worker-3")),
    "kubectl --prefix with ranks": (
        {"k.log": _interleaved("[pod/llm-worker-0/pytorch] [rank{}]: ")},
        Who(3, "llm-worker-0"),
    ),
    "kubectl --timestamps": ({"k.log": _interleaved("2024-01-01T12:00:00.123456789Z [rank{}]: ")}, Who(3)),
    "stern": ({"s.log": _interleaved("llm-worker-{} pytorch ")}, Who(None, "llm-worker-3")),
    "GNU parallel --tag": ({"p.log": _interleaved("rank{}\t")}, Who(3)),
    "GNU parallel --tag with an option": ({"p.log": _interleaved("--rank {}\t")}, Who(3)),
    "docker compose": ({"c.log": _interleaved("worker-{}  | ")}, Who(None, "worker-3")),
    "ray": ({"ray.log": _interleaved("(RayTrainWorker pid=10{}, ip=10.0.0.7) ")}, Who(None, "10.0.0.7", pid=103)),
    "pdsh and ranks": ({"p.log": _interleaved("gpu-n01: [rank{}]: ")}, Who(3, "gpu-n01")),
    "hosts alone": ({"p.log": _interleaved("gpu-n0{}: ")}, Who(None, "gpu-n03")),
    "a file for each rank": (_files("rank_{}.log"), Who(3)),
    "a file for each rank, zeros before": (_files("log_rank0{}.txt"), Who(3)),
    "a folder for each rank": (_files("rank{}/stderr.log"), Who(3)),
    "srun's %t files": (_files("train-9081_{}.out"), Who(3)),
    "torchrun's folders": (_files("none_ab12/attempt_0/{}/stderr.log"), Who(3, None, 3, 0)),
    "torchrun's folders, third attempt": (_files("none_ab12/attempt_2/{}/stderr.log"), Who(3, None, 3, 2)),
    "a file for each place on the node": (_files("local_rank_{}.log"), Who(3, None, 3)),
    "Paddle's files of workers": (_files("log/workerlog.{}"), Who(3, None, 3)),
    "a file for each pod": (_files("llm-7b-worker-{}.log"), Who(None, "llm-7b-worker-3")),
    "a file for each host": (_files("train-node00{}.log"), Who(None, "node003")),
    "a folder for each host with its ranks": (
        {f"node{rank // 2}/rank_{rank}.log": FILLER + (TRACE if rank == 3 else "") for rank in range(4)},
        Who(3, "node1"),
    ),
    "kubelet's folders": (
        {f"pods/ml_llm-worker-{rank}_uid/main/1.log": FILLER + (TRACE if rank == 3 else "") for rank in range(4)},
        Who(None, "llm-worker-3", None, 1),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_read(name: str, tmp_path: Path) -> None:
    files, expected = LAYOUTS[name]
    for path, text in files.items():
        (tmp_path / "logs" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "logs" / path).write_text(text)
    reading = read_logs([tmp_path / "logs"])
    assert {hit.who for hit in reading.hits if hit.signature == "oom.cuda-allocation"} == {expected}
    (raised,) = reading.raised
    assert (raised.exception, [frame.function for frame in raised.frames]) == ("torch.OutOfMemoryError", ["step"])
    assert raised.hit.who == expected


@pytest.mark.parametrize(
    "text",
    [
        "rank 3 failed to respond in time",
        "waiting for rank 3",
        "INFO all ranks but rank 3 have joined",
        "2024-01-01 12:00:00,000 WARNING peer rank 3 is slow",
        "[1/100] loss 2.5",
        "12: 00",
        "[2024] hello",
        "Sending process 99 closing signal SIGTERM",
    ],
)
def test_a_rank_that_a_sentence_talks_about_is_content(text: str) -> None:
    assert head_of(text).who == Who()


@pytest.mark.parametrize(
    ("text", "who", "rest"),
    [
        (
            "[2025-01-02 03:04:05,678] [INFO] [pkg.cli.train:48] [PID:3646] [RANK:0] loading",
            Who(0, pid=3646),
            "loading",
        ),
        ("[2025-01-02 03:04:05,678] [INFO] [pkg.train:40] [RANK:3] loading", Who(3), "loading"),
        ("Exception in device=TPU:6: RESOURCE_EXHAUSTED: From", Who(6), "RESOURCE_EXHAUSTED: From"),
        ("[pkg.cli.train:48] loading", Who(), "[pkg.cli.train:48] loading"),
        ("Exception in device=TPU:0,1 again", Who(), "Exception in device=TPU:0,1 again"),
    ],
)
def test_what_stands_before_a_rank_in_capitals_and_what_names_a_device_by_its_ordinal(
    text: str, who: Who, rest: str
) -> None:
    head = head_of(text)
    assert (head.who, text[head.end :].strip()) == (who, rest)


def test_numbers_that_count_the_lines_are_no_labels(tmp_path: Path) -> None:
    (tmp_path / "listing.txt").write_text("".join(f"{n}: {OOM}\n" for n in range(1, 40)))
    assert {hit.who for hit in read_logs([tmp_path]).hits} == {Who()}


def test_a_table_about_ranks_and_runs_of_the_same_name_bear_no_labels(tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text("rank\tloss\n" + "".join(f"rank {n}\t{OOM}\n" for n in range(40)))
    said = ("began", "waits", "goes", "ended")
    (tmp_path / "workers.txt").write_text("".join(f"my-worker-{n % 2} {said[n // 2 % 4]} {OOM}\n" for n in range(40)))
    (tmp_path / "runs.txt").write_text("".join(f"epoch-{n // 4} train {OOM}\n" for n in range(40)))
    assert {hit.who for hit in read_logs([tmp_path]).hits} == {Who()}


def test_the_process_of_a_rank_is_known_by_what_nccl_said_of_it(tmp_path: Path) -> None:
    text = (
        "n1:4100:4180 [0] NCCL INFO comm 0x55 rank 8 nranks 16 cudaDev 0 busId 1a000 - Init COMPLETE\n"
        "n1:4101:4181 [1] NCCL INFO comm 0x56 rank 9 nranks 16 cudaDev 1 busId 1b000 - Init COMPLETE\n"
        "n1:4101:4199 [1] NCCL WARN " + OOM + "\n"
    )
    (tmp_path / "train.log").write_text(text)
    (tmp_path / "agent.log").write_text(
        "E0101 12:00:00.5 9 x.py:1] failed (exitcode: -6) local_rank: 1 (pid: 4101) of binary: p\n"
    )
    reading = read_logs([tmp_path])
    assert reading.world_size == 16
    warned = [hit for hit in reading.hits if "NCCL WARN" in hit.text]
    assert warned
    assert {hit.who.rank for hit in warned} == {9}
    assert [(one.about.rank, one.about.node, one.code) for one in reading.endings] == [(9, "n1", -6)]


def test_two_agents_of_one_job_are_two_nodes(tmp_path: Path) -> None:
    for node, base in (("abc_x1", 0), ("abc_x2", 2)):
        for local in range(2):
            path = tmp_path / node / "attempt_0" / str(local) / "stderr.log"
            path.parent.mkdir(parents=True)
            path.write_text(f"[rank{base + local}]: {OOM}\n" if local == 0 else f"{OOM}\n")
    reading = read_logs([tmp_path])
    assert sorted((file.who.rank or 0) for file in reading.files) == [0, 1, 2, 3]
    assert sorted(hit.who.rank or 0 for hit in reading.hits) == [0, 1, 2, 3]


def test_jobs_in_one_folder_are_said(tmp_path: Path) -> None:
    (tmp_path / "slurm-1001.out").write_text("2024-01-01 12:00:00,000 INFO a\n2024-01-01 13:00:00,000 ERROR b\n")
    (tmp_path / "slurm-1002.out").write_text("2024-01-02 12:00:00,000 INFO a\n2024-01-02 13:00:00,000 ERROR b\n")
    (note,) = read_logs([tmp_path]).notes
    assert "2 jobs" in note
    assert "1001" in note
    assert "one after the other" in note


def test_names_of_rolled_logs_are_no_ranks() -> None:
    assert [told.who for told in label([f"logs/train.log.{n}" for n in range(4)])] == [Who()] * 4


def test_a_name_tells_what_it_says_and_no_more() -> None:
    assert named("logs/node_rank_1.log").who.rank is None
    assert named("out/slurm-881.out").job == "881"
    assert named("runs/exp7/train.log").who == Who()
    assert named("logs/franky_3.log").who == Who()


def test_a_file_beside_those_of_other_ranks_is_that_of_the_first_one() -> None:
    told = {path: one.who.rank for path, one in zip(FIRST, label(FIRST), strict=True)}
    assert told == {"out/log.txt": 0, "out/log.txt.rank1": 1, "out/log.txt.rank2": 2, "out/other.txt": None}


FIRST = ["out/log.txt", "out/log.txt.rank1", "out/log.txt.rank2", "out/other.txt"]


def test_what_a_rank_says_behind_a_bar_is_its_own() -> None:
    line = " 92%|█████[rank1]:[E ProcessGroupNCCL.cpp:523] [Rank 1] Watchdog caught collective operation timeout"
    assert KnownHeads().head_of(line).who == Who(1)
    assert KnownHeads().head_of(" 92%|█████ | 16/17 [00:01<00:01, [rank1] is slow, 1.1it/s]").who == Who()


@pytest.mark.parametrize(
    "label", ["Process {}: ", "12:00:01 gpu {} | ", "learner[{}] ", "llm-task-{} > ", "<worker {}> ", "[r{}] "]
)
def test_a_word_and_a_number_before_each_line_is_a_rank_where_several_are_told_of(label: str, tmp_path: Path) -> None:
    said = [(rank, f"step {step} loss 2.{rank}") for step in range(3) for rank in (1, 0, 0, 2, 3)]
    said[0] = (1, "joined, world_size=4")
    said += [(rank, text) for text in (*TRACE.splitlines(),) for rank, text in ((3, text), (1, "waiting"))]
    (tmp_path / "job.log").write_text("".join(f"{label.format(rank)}{text}\n" for rank, text in said))
    reading = read_logs([tmp_path / "job.log"])
    assert {hit.who for hit in reading.hits if hit.signature == "oom.cuda-allocation"} == {Who(3)}
    assert {one.who.rank for one in reading.spoke} == {0, 1, 2, 3}


def test_who_says_that_it_has_the_rank_of_its_number_may_speak_in_any_order() -> None:
    lines = [f"Process {number}: {text}" for text in ("rank {} is up", "step 1", "step 2") for number in range(4)]
    told = [line.format(number % 4) for number, line in enumerate(lines)]
    assert style_of("\n".join([*told, ""]).encode()) == "numbered"
    others = [line.format(3 - number % 4) for number, line in enumerate(lines)]
    assert style_of("\n".join([*others, ""]).encode()) != "numbered"


def test_two_that_speak_as_long_as_they_like_are_ranks() -> None:
    lines = [f"Process {number}: NCCL says {at}" for at, number in enumerate((0, 1, 1, 0, 1, 0, 0, 0, 1, 0))]
    assert style_of("\n".join([*lines, ""]).encode()) == "numbered"


@pytest.mark.parametrize(
    "lines",
    [
        [f"worker[{number}] step {number} loss 2.5" for number in range(8)],  # a counter
        [f"Process {number}: begins" for number in (0, 2, 0, 2, 2, 0)],  # one is missing
        [f"env 3: reward {number}" for number in range(8)],
        ["gpu 0 | [rank1]: a", "gpu 1 | [rank0]: b", "gpu 1 | [rank0]: c", "gpu 0 | [rank1]: d"],
        ["GPU 0: NVIDIA H100 (UUID: GPU-1)", "GPU 1: NVIDIA H100 (UUID: GPU-2)"],
        ["[rank 0] worker[0] a", "[rank 0] worker[1] b", "[rank 0] worker[1] c", "[rank 0] worker[0] d"],
        # environments, tasks and cards of one program
        [f"Env worker {number}: episode reward {number}" for number in (0, 2, 1, 1, 3, 0, 2, 2, 0, 3, 1, 0)],
        # loops within others, of one of several ranks
        ["Task 0: uses NCCL", *(f"Task {task}: epoch {epoch} loss 2.5" for task in range(4) for epoch in range(3))],
        [
            "gpu 0: uses NCCL",
            *(f"gpu {card}: {what} 81" for _ in range(4) for card in (0, 1) for what in ("used", "free")),
        ],
    ],
)
def test_numbers_of_what_writes_not_are_no_ranks(lines: list[str]) -> None:
    assert style_of("\n".join([*lines, ""]).encode()) != "numbered"


def test_the_label_of_torch_is_read_behind_what_was_no_label_in_a_line_before() -> None:
    heads = KnownHeads()
    plain = heads.head_of("2026-11-28 01:03:06,744 ERROR [2] Traceback (most recent call last):")
    labelled = heads.head_of("2026-11-28 01:03:06,745 ERROR [2] [rank2]: IndexError: out of bounds")
    assert (plain.who.rank, labelled.who.rank) == (None, 2)


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("run/gpu017.log", Who(node="gpu017")),
        ("run/gpua104.kern.log", Who(node="gpua104")),
        ("run/gpu-212/agent.log", Who(node="gpu-212")),
        ("run/gpu44.log", Who()),
        ("scaling/gpu256/run.log", Who()),
        ("scaling/gpus8.log", Who()),
        ("run/gpu029/j_x1/attempt_0/3/stderr.log", Who(None, "gpu029", 3, 0)),
        ("run/gpu7.log", Who(local_rank=7)),
        ("node4/cuda_1.log", Who(None, "node4", 1)),
        ("build/cuda121.log", Who()),
        ("build/cuda-12.4.log", Who()),
    ],
)
def test_a_machine_with_cards_is_no_card_and_a_version_is_none(path: str, who: Who) -> None:
    assert named(path).who == who


def test_a_folder_around_all_files_is_no_machine_where_machines_have_folders_within() -> None:
    paths = [f"node-failure-7/{name}" for name in ("srun.err", "gpu001/j/attempt_0/0/stderr.log", "gpu002/agent.log")]
    assert [one.who.node for one in label(paths)] == [None, "gpu001", "gpu002"]
    assert [one.who.node for one in label(["node-failure-7/a.log", "node-failure-7/b.log"])] == ["node-failure-7"] * 2
