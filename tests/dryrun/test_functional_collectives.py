"""Collectives that give new tensors, as tensor parallelism uses them, are counted like others."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.dry_run.added import first_of
from preflight.dryrun.launch import Job, dry_run
from preflight.source.launcher import parse_launch

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh("cuda", (4,))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).cuda()
plan = {"0": ColwiseParallel(input_layouts=Shard(0)), "2": RowwiseParallel(output_layouts=Shard(0))}
model = parallelize_module(model, mesh, plan)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    model(torch.rand(20, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_gathered_inputs_and_scattered_outputs_are_collectives_of_the_step(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    launch = parse_launch("torchrun --nproc_per_node 4 train.py")
    job = Job(
        script=str(script),
        root=str(tmp_path),
        gpu=resolve_gpu("a100-80gb"),
        capacity_bytes=80 << 30,
        seconds=150,
        environment=first_of(launch, None),
        devices=4,
    )
    seen = dry_run(job)
    assert (seen.outcome, seen.steps) == ("ended", 3), (seen.error, seen.message)
    found = {kind.operator: kind for kind in seen.work.kinds if kind.ranks}
    # Forward: 4 x 20 rows of 64 numbers in fp32 are gathered, and as many scattered; backward the other way round.
    assert {"_allgather_base_", "_reduce_scatter_base_"} <= set(found)
    assert found["_allgather_base_"].bytes == 80 * 64 * 4
    assert found["_allgather_base_"].ranks == 4
