"""DDP on gloo under torchrun: an encoder with a table of positions as a buffer, gradients clipped on every rank."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Encoder(nn.Module):
    def __init__(self, width, length, vocabulary):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(100.0) / width))
        angles = torch.arange(length)[:, None] * rates
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], dim=1))
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.classify = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.classify(self.layer(self.words(tokens) + self.positions).mean(dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--size", type=int, default=16)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Encoder(args.size, 10, 12))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    draw = torch.Generator().manual_seed(1000 * args.seed + rank)
    for step in range(args.steps):
        tokens = torch.randint(12, (16, 10), generator=draw)
        labels = (tokens[:, 0] < 6).long()
        loss = nn.functional.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        if step % 8 == 0 and rank == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    if rank == 0:
        print(f"loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
