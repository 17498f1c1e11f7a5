"""A general re-initialisation runs after the adapters were added and zeroes both of their matrices: their gradients are zero for ever."""
# source: https://github.com/nvidia-cosmos/cosmos-predict2.5/pull/15
# first effect: step 0
# names: lora_a.weight, lora_b.weight
# family: init
# detectable: yes trainable weights get gradients that are exactly zero at every step and never change

import argparse

import torch
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x))


def init_weights(net):
    for name, module in net.named_modules():
        if isinstance(module, nn.Linear) and not name.endswith("base"):
            nn.init.zeros_(module.weight)


class Net(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.qkv = nn.Linear(16, 16)
        self.mlp = nn.Linear(16, 16)
        self.modulation = nn.Linear(16, 16)
        if fixed:
            nn.init.zeros_(self.modulation.weight)
        self.qkv, self.mlp = LoraLinear(self.qkv), LoraLinear(self.mlp)
        if not fixed:
            init_weights(self)

    def forward(self, x):
        return self.mlp(torch.tanh(self.qkv(x))) * (1 + self.modulation(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    net = Net(args.fixed)
    teacher = torch.randn(16, 16) / 4
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.0)
    for step in range(args.steps):
        x = torch.randn(64, 16)
        loss = nn.functional.mse_loss(net(x), torch.tanh(x @ teacher))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"iter {step} loss {loss.item():.4f}")


main()
