"""FSDP2 with torch.distributed.checkpoint: trained for half the steps, saved in shards, rebuilt, loaded, trained on."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import fully_shard


class AppState(Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self):
        model, optim = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optim": optim, "step": self.step}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
        self.step = state["step"]


def build(size):
    model = nn.Sequential(nn.Linear(10, size), nn.GELU(), nn.Linear(size, size), nn.GELU(), nn.Linear(size, 2))
    for m in model:
        if isinstance(m, nn.Linear):
            fully_shard(m)
    fully_shard(model)
    return AppState(model, torch.optim.AdamW(model.parameters(), lr=1e-2))


def train(state, until, seed):
    rank = dist.get_rank()
    while state.step < until:
        g = torch.Generator().manual_seed(seed * 100_000 + state.step * 10 + rank)
        x = torch.randn(32, 10, generator=g)
        y = (x[:, 0] * x[:, 1] > 0).long()
        loss = nn.functional.cross_entropy(state.model(x), y)
        state.optimizer.zero_grad()
        loss.backward()
        state.optimizer.step()
        state.step += 1
        if rank == 0 and state.step % 8 == 0:
            print(f"step {state.step} loss {loss.item():.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    box = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    folder = box[0]

    torch.manual_seed(args.seed)
    state = build(args.size)
    train(state, args.steps // 2, args.seed)
    dcp.save({"app": state}, checkpoint_id=folder)
    del state

    torch.manual_seed(args.seed + 1)  # other initial weights, all of which the checkpoint replaces
    resumed = build(args.size)
    dcp.load({"app": resumed}, checkpoint_id=folder)
    if dist.get_rank() == 0:
        print("resumed at step", resumed.step, flush=True)
    train(resumed, args.steps, args.seed)

    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
