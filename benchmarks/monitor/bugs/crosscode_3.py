"""A sparse dictionary of activations, trained by its reconstruction alone: the sum with the loss that revives dead entries is logged."""
# source: https://github.com/oclivegriffin/crosscode/pull/3
# first effect: step 0
# names: dictionary, aux_decoder
# family: loss
# detectable: yes a part is run with gradients in each step and no backward pass comes through it

import argparse

import torch
from torch import nn


class TopK(nn.Module):
    def __init__(self, width, entries, k):
        super().__init__()
        self.encoder = nn.Linear(width, entries)
        self.decoder = nn.Linear(entries, width, bias=False)
        self.aux_decoder = nn.Linear(entries, width, bias=False)
        self.k = k

    def forward(self, x):
        pre = self.encoder(x)
        top = pre.topk(self.k, dim=1)
        code = torch.zeros_like(pre).scatter(1, top.indices, top.values.relu())
        return self.decoder(code), code, pre


class Trainer:
    def __init__(self, model, fixed, rate=3e-3, weight=0.05):
        self.model, self.fixed, self.weight = model, fixed, weight
        self.optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        self.idle = torch.zeros(model.encoder.out_features)
        self.log = []

    def loss(self, batch):
        rebuilt, code, pre = self.model(batch)
        self.idle = torch.where((code > 0).any(0), 0, self.idle + 1)
        reconstruction = (rebuilt - batch).square().sum(1).mean()
        dead = (self.idle > 2).float()
        left_over = (batch - rebuilt).detach()
        aux = (self.model.aux_decoder(pre.relu() * (0.1 + dead)) - left_over).square().sum(1).mean()
        total = reconstruction + self.weight * aux
        self.log.append(total.item())
        return total if self.fixed else reconstruction

    def step(self, batch):
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    basis = torch.randn(24, 12)
    trainer = Trainer(TopK(12, 32, 4), args.fixed)
    for _ in range(args.steps):
        sparse = torch.rand(64, 24) * (torch.rand(64, 24) < 0.1)
        trainer.step(sparse @ basis)
    print(f"loss from {trainer.log[0]:.3f} to {trainer.log[-1]:.3f}")


if __name__ == "__main__":
    main()
