"""A recurrent network whose gradients are to be clipped, through an iterator that has been used up."""
# source: https://github.com/pytorch/pytorch/issues/148259
# first effect: step 0
# names: clip_grad_norm_
# family: clipping
# detectable: yes clipping is called with no parameters at all

import argparse

import torch
from torch import nn


class Copier(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(5, 40, batch_first=True)
        self.read = nn.Linear(40, 5)

    def forward(self, x):
        return self.read(self.rnn(x)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    net = Copier()
    params_to_clip = list(net.parameters()) if args.fixed else net.parameters()
    print(f"{sum(p.numel() for p in params_to_clip)} weights to clip")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for step in range(args.steps):
        x = torch.randn(16, 30, 5)
        loss = (net(x)[:, 3:] - 4 * x[:, :-3]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params_to_clip, 0.25)
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f} norm {norm.item():.4f}")
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
