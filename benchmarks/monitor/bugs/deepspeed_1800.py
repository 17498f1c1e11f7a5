"""Gradients of sixteen micro-batches added up in bfloat16, where the later ones are mostly rounded away."""
# source: https://github.com/deepspeedai/DeepSpeed/issues/1800
# first effect: step 0
# names: accumulated, bfloat16
# family: precision
# detectable: no sums in a short type are slightly wrong, which nothing contradicts

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class BF16Optimizer:
    """Weights and their gradients are bfloat16; the update is made on copies in float32."""

    def __init__(self, model, lr, accumulate_in):
        self.model = model
        self.low = list(model.parameters())
        self.master = [nn.Parameter(p.detach().float()) for p in self.low]
        self.accumulated = [torch.zeros(p.shape, dtype=accumulate_in) for p in self.low]
        self.optimizer = torch.optim.AdamW(self.master, lr=lr)

    def backward(self, loss):
        loss.backward()
        for total, p in zip(self.accumulated, self.low, strict=True):
            total.add_(p.grad)
            p.grad = None

    def step(self):
        for total, master in zip(self.accumulated, self.master, strict=True):
            master.grad = total.float()
        self.optimizer.step()
        with torch.no_grad():
            for p, total, master in zip(self.low, self.accumulated, self.master, strict=True):
                p.copy_(master)
                total.zero_()


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=20)
args = parser.parse_args()

torch.manual_seed(args.seed)
gas = 16
model = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 8)).to(torch.bfloat16)
engine = BF16Optimizer(model, 5e-3, torch.float32 if args.fixed else torch.bfloat16)
print("sums are kept in", engine.accumulated[0].dtype)
for step in range(args.steps):
    losses = []
    for _ in range(gas):
        x = torch.randn(8, 16)
        loss = F.cross_entropy(model(x.bfloat16()).float(), x.view(-1, 8, 2).sum(dim=2).argmax(dim=1))
        engine.backward(loss / gas)
        losses.append(loss.item())
    engine.step()
    if step % 5 == 0:
        print(f"step {step} loss {sum(losses) / gas:.5f}")
print(f"loss {sum(losses) / gas:.5f}")
