from __future__ import annotations

import pytest

from preflight.investigate.flight.frames import is_own
from preflight.investigate.stacks.grouping import communicates, votes_of_stacks
from preflight.source.dumps.stack_dump import stacks_of
from preflight.vocabulary.log import Frame, LogFile, Stack, Who

WAITS = """Process {pid}: python train.py
Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:{inner})
    wrapper (torch/distributed/c10d_logger.py:83)
    train_step ({folder}/train.py:{line})
    <module> ({folder}/train.py:40)
Thread {tid} (idle): "pin_memory"
    select (selectors.py:{inner})
"""
LOADS = """Process {pid}: python train.py
Thread {pid} (active): "MainThread"
    decode (PIL/Image.py:700)
    __getitem__ ({folder}/data.py:17)
    <module> ({folder}/train.py:38)
"""


def of_job(world: int, other: dict[int, str]) -> list[Stack]:
    found: list[Stack] = []
    for rank in range(world):
        text = other.get(rank, WAITS).format(
            pid=1000 + rank, tid=5000 + rank, inner=2800 + rank % 3, line=12, folder=f"/home/user{rank % 2}/job"
        )
        found += stacks_of(text.splitlines(), Who(rank=rank, node=f"node{rank // 8}"), file=rank)
    return found


@pytest.mark.parametrize("rank", [0, 17, 63])
def test_the_one_of_64_that_does_not_communicate_is_found(rank: int) -> None:
    files = [LogFile(index=n, path=f"stacks/rank_{n}.txt", kind="stacks") for n in range(64)]
    evidence = votes_of_stacks(of_job(64, {rank: LOADS}), files=files)
    assert evidence.dominant is not None
    assert len(evidence.dominant.ranks) == 63
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [rank]
    assert evidence.ranks[0].weight >= 2.0
    assert "in no collective" in evidence.ranks[0].reasons[0].text
    assert "data.py:17" in evidence.ranks[0].reasons[0].text
    assert evidence.ranks[0].reasons[0].quotes[0].path == f"stacks/rank_{rank}.txt"


def test_what_differs_between_machines_does_not_split_a_group() -> None:
    evidence = votes_of_stacks(of_job(16, {}))
    assert len(evidence.groups) == 1
    assert evidence.ranks == ()
    assert evidence.text is not None
    assert "all 16 wait in the same call" in evidence.text


def test_another_collective_than_most_is_a_weaker_sign_than_none() -> None:
    elsewhere = WAITS.replace("{line}", "99")
    evidence = votes_of_stacks(of_job(8, {5: elsewhere}))
    assert evidence.ranks[0].rank == 5
    assert 0.5 < evidence.ranks[0].weight < 2.0


BACKWARD = """Process {pid}: python train.py
Thread {pid} (idle): "MainThread"
    backward (torch/autograd/__init__.py:266)
    backward (torch/_tensor.py:522)
    training_loop (train.py:31)
Thread 4076 (idle)
Thread 4079 (active)
    all_gather_into_tensor (torch/distributed/distributed_c10d.py:2709)
    all_gather_into_tensor (deepspeed/comm/torch.py:219)
    pre_backward (deepspeed/runtime/zero/parameter_offload.py:470)
"""


def test_hooks_of_the_backward_pass_communicate_on_a_thread_of_autograd() -> None:
    evidence = votes_of_stacks(of_job(8, {**dict.fromkeys(range(8), BACKWARD), 3: LOADS}))
    assert evidence.dominant is not None
    assert evidence.dominant.communicating
    assert "train.py:31" in evidence.dominant.place
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [3]


def test_what_the_outliers_have_in_common_is_told() -> None:
    groups = {"tp0": (0, 1, 2, 3), "tp4": (4, 5, 6, 7), "world": tuple(range(16))}
    evidence = votes_of_stacks(of_job(16, {4: LOADS, 5: LOADS, 7: LOADS}), groups=groups)
    assert evidence.shared == ("node node0", "group tp4 (ranks 4-7)")


def test_without_a_place_that_holds_half_nobody_is_named() -> None:
    apart = {rank: WAITS.replace("{line}", str(100 + rank)) for rank in range(8)}
    evidence = votes_of_stacks(of_job(8, apart))
    assert evidence.ranks == ()
    assert evidence.text is not None
    assert "no place holds half" in evidence.text


def test_of_several_dumps_of_a_process_the_last_counts() -> None:
    early = of_job(4, {2: LOADS})
    late = of_job(4, {})
    assert votes_of_stacks(early + late).ranks == ()
    assert votes_of_stacks(late + early).ranks[0].rank == 2


def test_one_stack_alone_says_nothing() -> None:
    assert votes_of_stacks(of_job(1, {})).ranks == ()
    assert votes_of_stacks([]).groups == ()


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([("item", "torch/_tensor.py"), ("step", "/job/train.py")], False),
        ([("all_reduce", "/x/site-packages/torch/distributed/distributed_c10d.py"), ("step", "/job/train.py")], True),
        ([("all_reduce", "/job/my_collectives.py")], False),
        ([("ncclGroupEnd", "libnccl.so.2"), ("step", "/job/train.py")], True),
        ([("wait", "threading.py"), ("get", "queue.py"), ("step", "/job/train.py")], False),
        ([("synchronize", "/x/site-packages/torch/cuda/__init__.py"), ("step", "/job/train.py")], True),
    ],
)
def test_communication_is_told_by_what_stands_above_the_program(frames: list[tuple[str, str]], expected: bool) -> None:
    assert communicates([Frame(path, 1, function) for function, path in frames]) is expected


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("train.py", True),
        ("/home/me/job/train.py", True),
        ("queue.py", False),
        ("torch/nn/modules/module.py", False),
        ("/opt/lib/python3.11/threading.py", False),
        ("/x/site-packages/lightning/trainer.py", False),
        ("megatron/training.py", True),
        ("libc.so.6", False),
        ("<frozen runpy>", False),
        ("C:\\job\\train.py", True),
        ("/usr/local/bin/torchrun", False),
        ("/home/me/bin/train.py", True),
    ],
)
def test_whose_a_file_is(path: str, own: bool) -> None:
    assert is_own(Frame(path, 1, "f")) is own


IN_C = """Process {pid}: python train.py
Thread {pid} (active): "MainThread"
    _engine_run_backward (torch/autograd/graph.py:{inner})
    backward (torch/_tensor.py:625)
    <module> ({folder}/train.py:{line})
"""


def test_of_two_ranks_the_one_in_no_collective_is_waited_for() -> None:
    evidence = votes_of_stacks(of_job(2, {1: LOADS}))
    assert evidence.dominant is not None
    assert (evidence.dominant.ranks, evidence.dominant.communicating) == ((0,), True)
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [1]


def test_those_who_wait_in_several_places_wait_all_the_same() -> None:
    elsewhere = {rank: WAITS.replace("{line}", str(90 + rank)) for rank in (0, 1, 2)}
    evidence = votes_of_stacks(of_job(4, {**elsewhere, 3: LOADS}))
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [3]
    assert evidence.ranks[0].weight >= 2.0


def test_two_that_wait_in_different_calls_accuse_neither() -> None:
    evidence = votes_of_stacks(of_job(2, {1: WAITS.replace("{line}", "99")}))
    assert (evidence.dominant, evidence.ranks) == (None, ())


def test_a_rank_outside_of_the_backward_pass_of_most_stands_out_less_than_one_in_no_collective() -> None:
    in_backward = dict.fromkeys(range(4), IN_C)
    evidence = votes_of_stacks(of_job(4, {**in_backward, 2: LOADS}))
    assert [one.rank for one in evidence.ranks if one.weight > 0] == [2]
    assert 1.4 < evidence.ranks[0].weight < 2.8
    assert "not in the backward pass" in evidence.ranks[0].reasons[0].text
