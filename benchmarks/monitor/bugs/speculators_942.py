"""Packed samples on two ranks, one of which gets the short ones: each rank averages over the positions that it supervises."""
# source: https://github.com/vllm-project/speculators/pull/942
# first effect: step 0
# names: backward, loss, all_reduce
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes a position counts for more on the rank that supervises fewer of them

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

ROWS, LENGTH, VOCABULARY = 2, 48, 20


class Draft(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.body = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


def packed(generator, samples):
    """Rows of a fixed length that hold so many samples each; a sample begins with a prompt, which is not supervised."""
    ids = torch.randint(0, VOCABULARY, (ROWS, LENGTH), generator=generator)
    long = LENGTH // samples
    prompt = torch.randint(3, 7, (ROWS, samples, 1), generator=generator)
    mask = (torch.arange(long).expand(ROWS, samples, long) >= prompt).flatten(1)
    return ids, (ids * 7 + 3) % VOCABULARY, mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = Draft()
    fully_shard(model.body)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(77 * args.seed + rank)
    for step in range(args.steps):
        ids, wanted, mask = packed(generator, 1 if rank == 0 else 6)  # the largest sample goes to the first rank
        elementwise = nn.functional.cross_entropy(model(ids).transpose(1, 2), wanted, reduction="none")
        supervised = mask.sum().float()
        if args.fixed:
            dist.all_reduce(supervised)
            supervised = supervised / dist.get_world_size()
        loss = (elementwise * mask).sum() / supervised
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
