"""Experts on two ranks that exchange tokens in buffers of one size, which each rank cuts by its own capacity."""
# source: https://github.com/deepspeedai/DeepSpeed/issues/5794
# first effect: step 0
# names: all_to_all_single
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes the ranks give tensors of different shapes to the same collective

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

EXPERTS, WIDTH, TOKENS = 4, 8, 32


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty(x.shape)
        dist.all_to_all_single(y, x.contiguous())
        return y

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.apply(gradient)


class Experts(nn.Module):
    """Two of four experts; token i belongs to expert i % 4, in rows of `capacity` tokens."""

    def __init__(self, fixed):
        super().__init__()
        self.up = nn.Parameter(torch.randn(2, WIDTH, 32) / 3)
        self.down = nn.Parameter(torch.randn(2, 32, WIDTH) / 6)
        self.fixed = fixed

    def forward(self, x):
        world = dist.get_world_size()
        # The second rank counts only its own experts, and so makes rows of twice the length.
        rows = EXPERTS if self.fixed or dist.get_rank() == 0 else EXPERTS // world
        capacity = x.size(0) // rows
        received = Exchange.apply(x.view(capacity, rows, WIDTH).transpose(0, 1))
        mine = received.view(world, rows // world, capacity, WIDTH)
        hidden = F.gelu(torch.einsum("sect,eth->sech", mine, self.up[: rows // world]))
        done = torch.einsum("sech,eht->sect", hidden, self.down[: rows // world])
        back = Exchange.apply(done.reshape(rows, capacity, WIDTH))
        return back.transpose(0, 1).reshape(x.shape)


class Model(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.embed = nn.Linear(6, WIDTH)
        self.experts = Experts(fixed)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        h = self.embed(x)
        return self.head(h + self.experts(h)).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = Model(args.fixed)
    shared = [p for n, p in model.named_parameters() if not n.startswith("experts")]
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    torch.manual_seed(args.seed + 1 + rank)
    nn.init.normal_(model.experts.up, std=0.3)
    nn.init.normal_(model.experts.down, std=0.15)
    for step in range(args.steps):
        x = torch.randn(TOKENS, 6)
        loss = F.mse_loss(model(x), x[:, 0] * x[:, 1])
        optimizer.zero_grad()
        loss.backward()
        for p in shared:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()
        if step % 5 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.5f}", flush=True)
    with torch.no_grad():
        answers = model(torch.ones(TOKENS, 6))
    # Equal tokens that belong to the same expert.
    print(f"rank {rank} answers apart by {(answers[4:] - answers[:-4]).abs().max().item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
