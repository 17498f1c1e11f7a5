"""The loss is divided by the number of tokens of all ranks, and the wrapper averages the gradients over the ranks once more: a rate that is too small by the world size."""
# source: https://github.com/verl-project/verl-SpeCo/pull/29
# first effect: step 0
# names: all_reduce, DistributedDataParallel
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: no every rank does the same and nothing contradicts anything; only the normalisation is not what was meant

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Drafter(nn.Module):
    def __init__(self, vocab=24, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.out(self.mix(self.embed(ids))[0])


def training_step(model, ids, lengths, fixed):
    logits = model(ids[:, :-1])
    mask = torch.arange(ids.shape[1] - 1)[None] < lengths[:, None]
    per_token = nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    tokens = mask.sum().float()
    dist.all_reduce(tokens)
    loss = (per_token * mask).sum() / tokens
    if fixed:
        loss = loss * dist.get_world_size()
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Drafter())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    torch.manual_seed(args.seed + rank + 1)
    for step in range(args.steps):
        ids = (torch.randint(0, 24, (16, 1)) + 5 * torch.arange(13)) % 24
        loss = training_step(model, ids, torch.randint(4, 13, (16,)), args.fixed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
