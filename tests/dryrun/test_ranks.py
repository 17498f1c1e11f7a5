"""Scripts that are started with many processes, seen from the first of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.dry_run.added import first_of
from preflight.dryrun.launch import Job, dry_run
from preflight.source.launcher import parse_launch
from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

WIDTH = 512
PARAMETERS = 4 * (WIDTH * WIDTH + WIDTH) * 4  # bytes of four square layers with bias in fp32

START = f"""
import os, torch, torch.nn as nn, torch.distributed as dist
dist.init_process_group("nccl")
rank, world, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
device = torch.device(local)
assert device.type == "cuda"
model = nn.Sequential(*[nn.Linear({WIDTH}, {WIDTH}) for _ in range(4)])
"""
TRAIN = f"""
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    loss = model(torch.randn(4, {WIDTH}, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    dist.barrier()
"""


def _run(tmp_path: Path, text: str, line: str = "torchrun --nproc_per_node 8 train.py") -> Profile:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    launch = parse_launch(line)
    gpu = resolve_gpu("h100")
    job = Job(
        script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=gpu.memory_bytes, seconds=120,
        devices=launch.gpus_per_node or 1, environment=first_of(launch, None),
    )  # fmt: skip
    profile = dry_run(job)
    assert profile.outcome in ("ended", "stopped"), (profile.error, profile.message, profile.deepest)
    assert profile.steps == 3
    return profile


@pytest.mark.parametrize("nodes", [1, 8])
def test_fsdp2_holds_its_share_of_the_parameters(tmp_path: Path, nodes: int) -> None:
    wrapped = """
from torch.distributed.fsdp import fully_shard
model = model.to(local)
for layer in model:
    fully_shard(layer)
fully_shard(model)
"""
    profile = _run(tmp_path, START + wrapped + TRAIN, f"torchrun --nnodes {nodes} --nproc_per_node 8 train.py")
    # The share of a bias is less than a block of 512 bytes.
    assert profile.categories["parameter"] == 4 * (WIDTH * WIDTH * 4 // (8 * nodes) + 512)
    assert profile.categories["communication"] > 0


def test_ddp_keeps_buckets_of_the_size_of_the_gradients(tmp_path: Path) -> None:
    wrapped = """
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(model.to(local), device_ids=[local])
with model.no_sync():
    pass
assert isinstance(model.module, nn.Sequential)
names = [None] * world
dist.all_gather_object(names, {"rank": rank})
assert names[-1] == {"rank": 0}
parts = [torch.zeros(2) for _ in range(world)]
dist.all_gather(parts, torch.ones(2))
assert all(part.sum() == 2 for part in parts)
"""
    profile = _run(tmp_path, START + wrapped + TRAIN)
    assert profile.categories["communication"] == PARAMETERS
    assert profile.categories["parameter"] == PARAMETERS


def test_ddp_gradients_may_be_views_of_the_buckets(tmp_path: Path) -> None:
    wrapped = """
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(model.to(local), gradient_as_bucket_view=True)
"""
    profile = _run(tmp_path, START + wrapped + TRAIN)
    assert "communication" not in profile.categories
    assert PARAMETERS <= profile.categories["gradient"] < 1.5 * PARAMETERS


def test_ddp_stops_where_a_parameter_takes_no_part(tmp_path: Path) -> None:
    wrapped = """
from torch.nn.parallel import DistributedDataParallel
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        return self.used(x)
model = DistributedDataParallel(Part().cuda())
"""
    script = START + wrapped + TRAIN.replace(str(WIDTH), "8")
    with pytest.raises(AssertionError, match="finished reduction in the prior iteration"):
        _run(tmp_path, script)


def test_fsdp1_shards_flat_parameters(tmp_path: Path) -> None:
    wrapped = """
from torch.distributed.fsdp import FullyShardedDataParallel
model = FullyShardedDataParallel(model, device_id=torch.cuda.current_device())
"""
    assert _run(tmp_path, START + wrapped + TRAIN).categories["parameter"] == PARAMETERS / 8


def test_tensor_parallel_layers_are_split(tmp_path: Path) -> None:
    wrapped = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cuda", (world,))
plan = {"0": ColwiseParallel(), "1": RowwiseParallel(), "2": ColwiseParallel(), "3": RowwiseParallel()}
model = parallelize_module(model.cuda(), mesh, plan)
"""
    # An eighth of four weights; an eighth of two biases, in blocks of 512 bytes; two biases that every rank holds.
    held = 4 * WIDTH * WIDTH * 4 // 8 + 2 * 512 + 2 * WIDTH * 4
    _run(tmp_path, START + wrapped + f"assert torch.cuda.memory_allocated() == {held}\n" + TRAIN)


def test_spawn_runs_the_first_process(tmp_path: Path) -> None:
    text = START.replace("\n", "\n    ").replace('"nccl"', '"nccl", rank=rank, world_size=world')
    text = text.replace(
        'rank, world, local = dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])', "local = rank"
    )
    body = f"def main(rank, world):{text}model.to(rank){TRAIN}".replace("model.to(rank)", "model.to(rank)\n    ")
    body = body.replace(TRAIN, TRAIN.replace("\n", "\n    "))
    start = "\nif __name__ == '__main__':\n    torch.multiprocessing.spawn(main, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())\n"
    profile = _run(tmp_path, "import os, torch\n" + body + start, "python train.py")
    assert profile.categories["parameter"] == PARAMETERS


def test_tensor_parallel_layers_can_be_sharded_over_the_other_dimension(tmp_path: Path) -> None:
    wrapped = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("dp", "tp"))
plan = {"0": ColwiseParallel(), "1": RowwiseParallel(), "2": ColwiseParallel(), "3": RowwiseParallel()}
model = parallelize_module(model.cuda(), mesh["tp"], plan)
assert {p.device for p in model.parameters()} == {torch.device("cuda", torch.cuda.current_device())}
model = fully_shard(model, mesh=mesh["dp"])
"""
    profile = _run(tmp_path, START + wrapped + TRAIN)
    assert profile.steps == 3
    assert profile.communicators == 3  # all ranks, those of a row, those of a column
