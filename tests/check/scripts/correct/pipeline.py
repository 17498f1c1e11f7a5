import os
import torch
import torch.nn as nn
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.up = nn.Linear(d, 4 * d)
        self.down = nn.Linear(4 * d, d)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.ln(x))))


class Part(nn.Module):
    def __init__(self, first, last, n, d=512, vocab=10000):
        super().__init__()
        self.emb = nn.Embedding(vocab, d) if first else None
        self.blocks = nn.Sequential(*[Block(d) for _ in range(n)])
        self.head = nn.Linear(d, vocab) if last else None

    def forward(self, x):
        if self.emb is not None:
            x = self.emb(x)
        x = self.blocks(x)
        if self.head is not None:
            x = self.head(x)
        return x


def loss_fn(out, target):
    return nn.functional.cross_entropy(out.flatten(0, 1), target.flatten())


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    part = Part(rank == 0, rank == world - 1, 4).to(device)
    stage = PipelineStage(part, rank, world, device)
    schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=loss_fn)
    opt = torch.optim.AdamW(part.parameters(), lr=1e-3)
    for it in range(100):
        x = torch.randint(0, 10000, (32, 128), device=device)
        y = torch.randint(0, 10000, (32, 128), device=device)
        opt.zero_grad()
        if rank == 0:
            schedule.step(x)
        elif rank == world - 1:
            losses = []
            schedule.step(target=y, losses=losses)
            print(it, torch.stack(losses).mean().item())
        else:
            schedule.step()
        opt.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
