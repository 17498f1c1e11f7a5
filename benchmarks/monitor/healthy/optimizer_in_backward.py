"""An optimizer for each parameter, stepped from a hook as soon as its gradient is accumulated, which is freed at once."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    layer = nn.TransformerEncoderLayer(args.size, 2, 2 * args.size, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Linear(3, args.size), layer, nn.Linear(args.size, 3))
    optimizers = {p: torch.optim.Adam([p], lr=2e-3, foreach=False) for p in model.parameters()}

    def step_and_free(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step_and_free)

    for step in range(args.steps):
        x = torch.rand(16, 10, 3)
        loss = (model(x) - x.flip(2)).square().mean()
        loss.backward()
        if step % 10 == 0:
            print(
                f"step {step} loss {loss.item():.5f} gradients held {sum(p.grad is not None for p in model.parameters())}"
            )


if __name__ == "__main__":
    main()
