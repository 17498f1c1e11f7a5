"""Sharded and tensor-parallel training in two processes: seen as what it is, and left as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.collect.settings import Settings
from preflight.monitor.live.launch import environment
from preflight.monitor.trace.folder import TraceFolder

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch cannot run several processes", allow_module_level=True)
if not hasattr(pytest.importorskip("torch.distributed.fsdp"), "fully_shard"):
    pytest.skip("this torch shards parameters on GPUs alone", allow_module_level=True)

PROGRAM = """
import sys, time
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.fsdp import fully_shard

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 4)
    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

def train(net, same):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for step in range(3):
        torch.manual_seed(step if same else 10 * step + dist.get_rank())
        x = torch.randn(6, 8)
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        print(loss.item().hex())

dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
sharded = Net()
fully_shard(sharded, mesh=mesh)
train(sharded, same=False)
torch.manual_seed(1)
split = Net()
parallelize_module(split, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
train(split, same=True)
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
time.sleep(0.2)
"""


def start(folder: Path, watched: bool) -> list[str]:
    """Run both ranks; returns what each of them said."""
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    trace = folder / "trace"
    trace.mkdir()
    ranks = []
    for rank in (0, 1):
        own = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        known = environment(Settings(str(trace), budget=0, detail_first=9), own) if watched else own
        command = [sys.executable, str(folder / "train.py"), str(folder / "meeting"), str(rank)]
        ranks.append(subprocess.Popen(command, env=known, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [rank.communicate() for rank in ranks]
    assert all(len(out.split()) == 6 for out, _ in said), said
    return [out for out, _ in said]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str], Path]:
    folder = tmp_path_factory.mktemp("sharded")
    return start(folder / "plain", False), start(folder / "watched", True), folder / "watched" / "trace"


def rows(folder: Path, kind: str) -> list[dict[str, Any]]:
    found = []
    for batch in TraceFolder(folder).batches(by="iteration"):
        columns = batch.tables.get(kind)
        if columns:
            rank = batch.process.rank
            found += [
                {**dict(zip(columns, row, strict=True)), "rank": rank} for row in zip(*columns.values(), strict=True)
            ]
    return found


def test_the_losses_are_the_same_bit_by_bit(both: tuple[list[str], list[str], Path]) -> None:
    plain, watched, _ = both
    assert plain == watched


def test_the_recorder_had_no_trouble(both: tuple[list[str], list[str], Path]) -> None:
    assert not rows(both[2], "trouble")


def test_what_is_sharded_is_known_with_its_ranks(both: tuple[list[str], list[str], Path]) -> None:
    names = {row["name"] for row in rows(both[2], "call")}
    assert {"wrap.fsdp2", "wrap.tp"} <= names
    last = {(row["rank"], row["name"]): row for row in rows(both[2], "variable")}
    for rank in (0, 1):
        assert last[rank, "sharded.up.weight"]["spread"]["kind"] == "sharded"
        assert last[rank, "sharded.up.weight"]["spread"]["ranks"] == [rank]
        assert last[rank, "split.up.weight"]["spread"]["ranks"] == [rank]
        # The bias after the sum over the ranks is each rank's copy of one.
        assert last[rank, "split.down.bias"]["spread"] == {
            "kind": "replicated", "ranks": [0, 1], "placements": last[rank, "split.down.bias"]["spread"]["placements"],
        }  # fmt: skip


def test_states_are_those_of_a_ranks_own_part(both: tuple[list[str], list[str], Path]) -> None:
    names = {(row["rank"], row["id"]): row["name"] for row in rows(both[2], "variable")}
    after: dict[tuple[int, int], dict[str, int]] = {}
    for row in rows(both[2], "state"):
        if (row["moment"], row["what"], row["level"]) == ("after_step", "parameter", "exact"):
            bits = {names[row["rank"], ident]: number for ident, number in zip(row["ids"], row["bits"], strict=True)}
            after.setdefault((row["rank"], row["i"]), {}).update(bits)
    assert len({iteration for _, iteration in after}) == 6
    for rank, iteration in after:
        own, other = after[rank, iteration], after[1 - rank, iteration]
        if "split.down.bias" in own:
            assert own["split.down.bias"] == other["split.down.bias"]
            assert own["split.up.weight"] != other["split.up.weight"]
        else:
            assert own["sharded.up.weight"] != other["sharded.up.weight"]
