"""Two ranks of a model with experts reduce the same gradients in a different order, each under another's name."""
# source: https://github.com/deepspeedai/DeepSpeed/issues/6714
# first effect: step 0
# names: all_reduce, dense.weight, expert.weight
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicated weights differ between the ranks after a step

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class MixedModel(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inp = nn.Linear(10, width)
        self.dense = nn.Linear(width, width)
        self.expert = nn.Linear(width, width)
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        return self.out(torch.tanh(self.dense(h)) + torch.tanh(self.expert(h)))


def reduce_gradients(model, has_moe_layers, fixed):
    """Average gradients; a stage that believes to hold experts reduces these first."""
    experts = [p for n, p in model.named_parameters() if n.startswith("expert")]
    others = [p for n, p in model.named_parameters() if not n.startswith("expert")]
    dense = [p for n, p in model.named_parameters() if n.startswith("dense")]
    rest = [p for p in others if all(p is not d for d in dense)]
    first, second = (experts, dense) if has_moe_layers or fixed else (dense, experts)
    for p in [*first, *second, *rest]:
        dist.all_reduce(p.grad)
        p.grad.div_(dist.get_world_size())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(args.seed)
    model = MixedModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    torch.manual_seed(args.seed + 17 * rank)
    for step in range(args.steps):
        x = torch.randn(24, 10)
        loss = F.cross_entropy(model(x), (x.sum(dim=1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        reduce_gradients(model, has_moe_layers=rank == 0, fixed=args.fixed)
        optimizer.step()
        if step % 10 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.4f}", flush=True)
    print(f"rank {rank} sum {sum(p.double().sum().item() for p in model.parameters()):.9f}", flush=True)
    dist.destroy_process_group()
