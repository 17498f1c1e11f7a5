"""A pipeline of two stages with the word embedding on both; with overlapped reduction its gradients are not added over the stages."""
# source: https://github.com/NVIDIA/Megatron-LM/issues/656
# first effect: step 0
# names: word_embeddings, head
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes two matrices on two ranks are equal bit by bit until the first step and differ from then on

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

WIDTH, VOCABULARY, LENGTH, BATCH = 24, 30, 12, 8


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mixer = nn.Conv1d(WIDTH, WIDTH, 3)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        mixed = self.mixer(F.pad(self.norm(x).transpose(1, 2), (2, 0))).transpose(1, 2)
        return x + self.mlp(mixed)


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings, self.stage = nn.Embedding(VOCABULARY, WIDTH), Stage()

    def forward(self, tokens):
        return self.stage(self.word_embeddings(tokens))


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.stage, self.head = Stage(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        return self.head(self.stage(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed + rank)
    model = First() if rank == 0 else Last()
    tied = model.word_embeddings.weight if rank == 0 else model.head.weight
    dist.broadcast(tied.data, 0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    data = torch.Generator().manual_seed(args.seed)
    for step in range(args.steps):
        tokens = (torch.randint(VOCABULARY, (BATCH, 1), generator=data) + 2 * torch.arange(LENGTH + 1)) % VOCABULARY
        if rank == 0:
            hidden = model(tokens[:, :-1])
            dist.send(hidden.detach(), 1)
            gradient = torch.empty_like(hidden)
            dist.recv(gradient, 1)
            hidden.backward(gradient)
        else:
            hidden = torch.empty(BATCH, LENGTH, WIDTH)
            dist.recv(hidden, 0)
            hidden.requires_grad_()
            loss = F.cross_entropy(model(hidden).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            dist.send(hidden.grad, 0)
            if step % 10 == 9:
                print(f"step {step + 1}: loss {loss.item():.4f}")
        if args.fixed:
            dist.all_reduce(tied.grad)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
