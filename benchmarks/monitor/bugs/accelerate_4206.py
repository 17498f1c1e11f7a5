"""Sharded adapters of which only the first rank's part is written to the checkpoint, and both ranks take it back."""
# source: https://github.com/huggingface/accelerate/pull/4206
# first effect: step 10
# names: lora_a, lora_b, torch.load
# launch: torchrun --nproc-per-node 2
# family: checkpoint
# detectable: yes weights after the load are not those that the same rank held when it saved

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


class ShardedAdapter(nn.Module):
    """A frozen layer that all ranks hold, and a low-rank adapter whose columns are shared out."""

    def __init__(self, width, rank_of_adapter):
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        part = rank_of_adapter // dist.get_world_size()
        self.lora_a = nn.Parameter(torch.empty(part, width))
        self.lora_b = nn.Parameter(torch.zeros(width, part))

    def forward(self, x):
        low = x @ self.lora_a.t() @ self.lora_b.t()
        total = low.detach().clone()
        dist.all_reduce(total)
        return self.base(x) + low + (total - low.detach())


def adapters(model):
    return {name: p.detach() for name, p in model.named_parameters() if "lora" in name}


def save(model, folder, fixed):
    rank = dist.get_rank()
    if fixed or rank == 0:
        torch.save(adapters(model), folder / f"adapter-{rank if fixed else 0}.pt")
    dist.barrier()


def load(model, folder, fixed):
    saved = torch.load(folder / f"adapter-{dist.get_rank() if fixed else 0}.pt")
    model.load_state_dict(saved, strict=False)
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    place = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(place, src=0)
    folder = Path(place[0])
    torch.manual_seed(args.seed)
    model = ShardedAdapter(16, 8)
    torch.manual_seed(args.seed + 1 + rank)
    nn.init.normal_(model.lora_a, std=0.3)
    optimizer = torch.optim.SGD([model.lora_a, model.lora_b], lr=0.3)
    data = torch.Generator().manual_seed(args.seed)
    target = torch.randn(16, 16, generator=data)
    for step in range(args.steps):
        x = torch.randn(32, 16, generator=data)
        loss = nn.functional.mse_loss(model(x), x @ target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == args.steps // 2 - 1:
            kept = model.lora_b.detach().clone()
            save(model, folder, args.fixed)
            load(model, folder, args.fixed)
            print(f"rank {rank} changed by the restore {(model.lora_b - kept).abs().max().item():.5f}", flush=True)
    print(f"rank {rank} loss {loss.item():.5f}", flush=True)
    dist.barrier()
    if rank == 0:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
