"""Several ranks of one run: which needs the most, and whether they call the same collectives."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.dry_run.added import first_of
from preflight.dryrun.launch import Job, dry_run
from preflight.dryrun.ranks import diverge, notes_of, with_others
from preflight.source.launcher import parse_launch
from preflight.vocabulary.profile import Call, Profile

ALL = (0, 1, 2, 3)


def _profile(rank: int, names: str, steps: int = 3, outcome: Any = "ended", group: tuple[int, ...] = ALL) -> Profile:
    calls = tuple(
        Call(name.partition("/")[0], 8, f"train.py:{at}", int(name.partition("/")[2] or 0), "forward", 0)
        for at, name in enumerate(names.split())
    )
    return Profile(outcome=outcome, rank=rank, world=4, steps=steps, groups=(group,), calls=calls)


def test_ranks_that_call_the_same_do_not_diverge() -> None:
    assert diverge(_profile(0, "allreduce_ barrier"), _profile(3, "allreduce_ barrier")) is None
    # Sends between two ranks, groups without the other rank, and what a stopped rank did not get to, say nothing.
    assert diverge(_profile(0, "send allreduce_"), _profile(3, "recv_ allreduce_")) is None
    assert diverge(_profile(0, "broadcast_", group=(0, 1)), _profile(3, "allreduce_", group=(2, 3))) is None
    assert diverge(_profile(0, "allreduce_ barrier"), _profile(3, "allreduce_", outcome="time is up")) is None
    # One of them was let go on after three steps.
    longer = _profile(0, "allreduce_/0 allreduce_/3 barrier/3", steps=6)
    assert diverge(longer, _profile(3, "allreduce_/0 barrier/3", steps=3)) is None


def test_the_first_different_call_is_told() -> None:
    found = diverge(_profile(0, "allreduce_ allreduce_ barrier"), _profile(3, "allreduce_ barrier"))
    assert found is not None
    assert (found.ranks, found.position) == ((0, 3), 1)
    one, two = found.calls
    assert one is not None
    assert two is not None
    assert (one.operator, two.operator) == ("allreduce_", "barrier")
    more = diverge(_profile(0, "allreduce_ barrier"), _profile(3, "allreduce_"))
    assert more is not None
    assert more.calls[1] is None
    sizes = _profile(3, "allreduce_")
    sizes = msgspec.structs.replace(sizes, calls=tuple(msgspec.structs.replace(c, bytes=16) for c in sizes.calls))
    assert diverge(_profile(0, "allreduce_"), sizes) is not None


def _seen(tmp_path: Path, text: str, ranks: int) -> Profile:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    launch, gpu = parse_launch(f"torchrun --nproc_per_node {ranks} train.py"), resolve_gpu("h100")
    job = Job(
        script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=gpu.memory_bytes, seconds=120, devices=ranks,
        environment=first_of(launch, None),
    )  # fmt: skip
    seen = with_others(job, dry_run(job), launch.variables(), ranks)
    assert [one.error for one in seen.ranks] == [None] * len(seen.ranks)
    return seen


@pytest.mark.torch
@pytest.mark.slow
def test_the_most_loaded_rank_gives_the_memory_and_a_rank_that_calls_alone_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    seen = _seen(
        tmp_path,
        """
        import os, torch, torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("nccl")
        rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local)
        model = DistributedDataParallel(torch.nn.Linear(64, 64).to(local), device_ids=[local])
        assert next(model.parameters()).device == torch.device("cuda", local)
        assert torch.cuda.current_device() == rank
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(8):
            loss = model(torch.randn(4, 64, device="cuda")).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if rank == 1:
                mask = torch.zeros(1 << 20, device=f"cuda:{local}")
                dist.all_reduce(loss)
            dist.barrier()
        """,
        4,
    )
    assert [one.rank for one in seen.ranks] == [0, 1, 3]  # the first, the one that the script names, the last
    assert seen.loaded == 1
    assert seen.peak_bytes == seen.ranks[1].peak_bytes >= seen.ranks[0].peak_bytes + (4 << 20)
    assert seen.communicators == 1
    assert [found.ranks for found in seen.divergences] == [(0, 1)]
    one, two = seen.divergences[0].calls
    assert one is not None
    assert two is not None
    assert (one.operator, two.operator) == ("barrier", "allreduce_")
    assert "rank 1 needs the most memory" in notes_of(seen)[0]
    assert "rank 0 calls barrier at train.py:19 and rank 1 calls allreduce at train.py:18" in notes_of(seen)[1]


@pytest.mark.torch
@pytest.mark.slow
def test_every_stage_of_a_pipeline_is_run_with_the_shapes_of_those_before(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(__import__("torch.distributed.pipelining.stage", fromlist=["x"]).PipelineStage, "_recv_meta"):
        pytest.skip(f"PyTorch {torch.__version__} tells stages their shapes in another way")
    seen = _seen(
        tmp_path,
        """
        import torch, torch.distributed as dist
        from torch import nn
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
        dist.init_process_group("nccl")
        rank, world = dist.get_rank(), dist.get_world_size()
        torch.cuda.set_device(rank)
        part = nn.Linear(64, 64 if rank < world - 1 else 5000).cuda()
        stage = PipelineStage(part, rank, world, torch.device("cuda", rank))
        schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.cross_entropy)
        optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
        for step in range(8):
            if rank == 0:
                schedule.step(torch.randn(32, 64, device="cuda"))
            elif rank == world - 1:
                schedule.step(target=torch.zeros(32, dtype=torch.int64, device="cuda"))
            else:
                schedule.step()
            optimizer.step()
            optimizer.zero_grad()
        """,
        3,
    )
    assert [one.rank for one in seen.ranks] == [0, 1, 2]
    assert [one.steps for one in seen.ranks] == [3, 3, 3]
    assert (seen.loaded, seen.divergences) == (2, ())
    assert seen.categories["parameter"] == 64 * 5000 * 4 + 20_480  # the bias of 5000 in a block


def test_ranks_share_the_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def run(job: Job) -> Profile:
        given.append(job.seconds)
        return Profile(outcome="ended", rank=job.rank, world=4, steps=2)

    monkeypatch.setattr("preflight.dryrun.launch.dry_run", run)
    gpu = resolve_gpu("a100-80gb")
    job = Job(script="train.py", root=str(tmp_path), gpu=gpu, capacity_bytes=80 << 30, seconds=300)
    first = Profile(outcome="ended", world=4, steps=2, others=(1, 2))
    with_others(job, first, {}, 4, time.monotonic() + 40)
    assert len(given) == 3
    assert max(given) <= 40
    late = with_others(job, first, {}, 4, time.monotonic())
    assert len(given) == 3
    assert {seen.outcome for seen in late.ranks[1:]} == {"time is up"}
    assert any("time limit was reached before it" in note for note in notes_of(late))
