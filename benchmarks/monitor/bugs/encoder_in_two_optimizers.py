"""The encoder belongs to two optimizers that both step on the same gradients: it is updated twice."""
# source: https://github.com/MishaLaskin/curl/issues/28
# first effect: step 1
# names: encoder.0.weight, encoder.2.weight, Adam
# family: optimizer
# detectable: yes two optimizers own the same parameters and step after one backward pass

import argparse

import torch
from torch import nn


class CURL(nn.Module):
    def __init__(self, encoder, dim):
        super().__init__()
        self.encoder = encoder
        self.W = nn.Parameter(torch.rand(dim, dim))

    def logits(self, anchor, positive):
        return self.encoder(anchor) @ (self.W @ positive.T)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    encoder = nn.Sequential(nn.Linear(27, 48), nn.ReLU(), nn.Linear(48, 16), nn.LayerNorm(16))
    curl = CURL(encoder, 16)
    encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    cpc_optimizer = torch.optim.Adam([curl.W] if args.fixed else curl.parameters(), lr=1e-3)
    target = nn.CrossEntropyLoss()
    for step in range(args.steps):
        obs = torch.randn(64, 27)
        anchor, positive = obs + 0.1 * torch.randn_like(obs), obs + 0.1 * torch.randn_like(obs)
        with torch.no_grad():
            key = encoder(positive)
        loss = target(curl.logits(anchor, key), torch.arange(64))
        encoder_optimizer.zero_grad()
        cpc_optimizer.zero_grad()
        loss.backward()
        encoder_optimizer.step()
        cpc_optimizer.step()
        if step % 4 == 0:
            print(f"step {step} curl loss {loss.item():.4f}")


main()
