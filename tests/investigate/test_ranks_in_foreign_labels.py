"""Who began it where the labels of the lines are anybody's own, and where they tell machines or processes alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.investigate.case.people import People
from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Culprit
from preflight.vocabulary.log import Reading, Spoke, Who

CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4{}12"
OWN = "KeyError: 'image_id'"
Label = Callable[[int], str]


def _raised(label: str, says: str, function: str) -> list[str]:
    return [
        f"{label}Traceback (most recent call last):",
        f'{label}  File "/job/train.py", line 30, in {function}',
        f"{label}    {function}(batch)",
        f"{label}{says}",
    ]


def _run(label: Label, first: int = 2, ranks: int = 4) -> list[str]:
    """Return what ranks print of a run in which one fails and the others tell of it."""
    said = ["start, world_size 4", "process group is ready", *(f"step {step} loss 1.{step}" for step in range(5))]
    order = ((0, 2, 1, 3), (3, 0, 1, 2), (1, 3, 2, 0))
    lines = [f"{label(rank)}{what}" for at, what in enumerate(said) for rank in order[at % 3] if rank < ranks]
    lines += _raised(label(first), OWN, "load")
    for rank in range(ranks):
        if rank != first:
            lines += _raised(label(rank), CLOSED.format(rank), "all_reduce")
    return lines


def _culprit(folder: Path, **files: list[str]) -> Culprit:
    for name, lines in files.items():
        (folder / f"{name}.log").write_text("\n".join([*lines, ""]))
    culprit = diagnose([str(folder)]).incident.culprit
    assert culprit is not None
    return culprit


@pytest.mark.parametrize(
    "label", ["10:00:01 unit={} | ", "({}/4) ", "U{} ", '{{set="job", pod="job-{}"}} ', "[unit {} | cx-11] "]
)
@pytest.mark.parametrize("first", [1, 3])
def test_a_rank_behind_any_label(label: str, first: int, tmp_path: Path) -> None:
    assert _culprit(tmp_path, all=_run(label.format, first)).ranks == (first,)


def test_places_are_ranks_where_their_machines_have_numbers(tmp_path: Path) -> None:
    lines = _run(lambda rank: f"[node-{rank // 2}, card {rank % 2}] ", 3)
    assert _culprit(tmp_path, all=lines).ranks == (3,)


def test_places_on_nodes_are_no_ranks_where_a_node_has_fewer_of_them_or_no_number() -> None:
    def ranks(*places: tuple[str, int]) -> tuple[int, ...]:
        spoke = tuple(Spoke(file=0, who=Who(node=node, local_rank=local), lines=3) for node, local in places)
        return People(Reading(spoke=spoke)).ranks()

    assert ranks(("node0", 0), ("node0", 1), ("node1", 0), ("node1", 1)) == (0, 1, 2, 3)
    assert ranks(("node0", 0), ("node0", 1), ("node1", 0)) == ()
    assert ranks(("node1", 0), ("node1", 1), ("node2", 0), ("node2", 1)) == ()
    assert ranks(("oak", 0), ("oak", 1), ("elm", 0), ("elm", 1)) == ()


def test_a_process_that_says_its_rank_once(tmp_path: Path) -> None:
    lines = [f"10:00:00 [{7001 + 6 * rank}] this is rank {rank} of 4" for rank in (1, 0, 3, 2)]
    assert _culprit(tmp_path, all=[*lines, *_run(lambda rank: f"10:00:01 [{7001 + 6 * rank}] ")]).ranks == (2,)


def test_objects_that_name_the_rank_as_they_like(tmp_path: Path) -> None:
    rows = []
    for at, line in enumerate(_run("{}\0".format)):
        rank, said = line.split("\0")
        if "Traceback" in said or said.startswith((" ", "RuntimeError", "KeyError")):
            continue
        rows.append(
            {"Timestamp": 1_760_000_000_000 + at, "lvl": "info", "ctx": {"process_index": int(rank)}, "Body": said}
        )
    for at, (rank, says, where) in enumerate(
        [
            (2, OWN, "load"),
            (0, CLOSED.format(1), "all_reduce"),
            (1, CLOSED.format(2), "all_reduce"),
            (3, CLOSED.format(3), "all_reduce"),
        ]
    ):
        raised = "\n".join(_raised("", says, where))
        rows.append(
            {
                "Timestamp": 1_760_000_005_000 + at,
                "lvl": "error",
                "ctx": {"process_index": rank},
                "Body": "it ended",
                "why": raised,
            }
        )
    assert _culprit(tmp_path, all=[json.dumps(row) for row in rows]).ranks == (2,)


def test_a_traceback_without_a_label_is_by_the_machine_of_its_file(tmp_path: Path) -> None:
    files = {
        name: [f"Nov 02 10:00:01 {host} job[{70 + at}]: start", *_raised("", says, where)]
        for at, (name, host, says, where) in enumerate([
            ("a", "oak7", CLOSED.format(1), "all_reduce"),
            ("b", "oak8", "ModuleNotFoundError: No module named 'fused'", "load"),
            ("c", "oak9", CLOSED.format(2), "all_reduce"),
        ])
    }  # fmt: skip
    assert _culprit(tmp_path, **files).nodes == ("oak8",)


def test_a_machine_is_named_where_nothing_else_is_told(tmp_path: Path) -> None:
    kernel = (
        "Aug 29 16:58:38 oak7 kernel: [14282.6] NVRM: Xid (PCI:0000:03:00): 79, pid=77, GPU has fallen off the bus."
    )
    assert _culprit(tmp_path, kern=[kernel]).nodes == ("oak7",)


def test_where_a_process_ended_is_named_where_nothing_tells_a_rank(tmp_path: Path) -> None:
    box = [
        "=" * 60,
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   PID 2671 RUNNING AT oak7",
        "=   EXIT CODE: 139",
        "=" * 60,
    ]
    assert _culprit(tmp_path, out=box).nodes == ("oak7",)


def test_a_table_that_is_cut_off_within_a_number_names_the_rank(tmp_path: Path) -> None:
    table = ["Root Cause (first observed failure):", "[0]:", "  time      : 2023-03-15_06:27:18", "  host      : oak7",
             "  rank      : 5 (local_rank: 5)", "  exitcode  : 1 (pid: 6"]  # fmt: skip
    assert _culprit(
        tmp_path, out=["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", *table]
    ).ranks == (5,)


def test_of_the_word_of_one_watchdog_alone_nobody_else_is_accused(tmp_path: Path) -> None:
    word = "[rank1]:[E507 18:50:51.3 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600061 milliseconds before timing out."
    assert _culprit(tmp_path, out=[word]).ranks == ()


def test_the_gap_between_two_that_speak_is_no_sign_where_another_may_be_missing(tmp_path: Path) -> None:
    def torch(rank: int) -> list[str]:
        return _raised(f"[rank{rank}]: ", CLOSED.format(rank), "all_reduce")

    assert _culprit(tmp_path, out=[*torch(0), *torch(2)]).ranks == ()


def test_a_silent_rank_beside_one_that_names_its_own_cause_was_cut_short(tmp_path: Path) -> None:
    lines = _run("unit={} ".format, 3)
    kept = [
        line
        for line in lines
        if not (line.startswith("unit=1") and any(word in line for word in ("Trace", "File", "(batch)", "Error")))
    ]
    assert _culprit(tmp_path, out=kept).ranks == (3,)


def test_the_one_container_that_raises_something_of_its_own_is_named_though_none_is_told_its_rank(
    tmp_path: Path,
) -> None:
    own = "RuntimeError: the sampler lost its place"
    told = _run(lambda rank: f"W-{rank + 1}/4 ", 2)
    lines = [line.replace(OWN, own).replace("start, world_size 4", "start") for line in told]
    assert _culprit(tmp_path, out=lines).nodes == ("W-3",)
