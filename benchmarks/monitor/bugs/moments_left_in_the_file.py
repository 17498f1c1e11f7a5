"""The resumed run takes weights and step from the checkpoint and leaves the optimizer's momentum in the file."""
# source: https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
# first effect: step 0
# names: opt, SGD, load_state_dict
# family: checkpoint
# detectable: yes the run counts on from a checkpoint that holds an optimizer of the same settings, and begins with an empty one

import argparse
import os
import subprocess
import sys

import torch
from torch import nn


class Run:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.net = nn.GRU(5, 20, batch_first=True)
        self.out = nn.Linear(20, 1)
        self.opt = torch.optim.SGD([*self.net.parameters(), *self.out.parameters()], lr=0.03, momentum=0.9)
        self.global_step = 0

    def save(self):
        name = f"step_{self.global_step:05d}.pt"
        state = {"net": self.net.state_dict(), "out": self.out.state_dict(), "opt": self.opt.state_dict()}
        torch.save({**state, "global_step": self.global_step}, name)

    def resume(self, step, fixed):
        state = torch.load(f"step_{step:05d}.pt")
        self.net.load_state_dict(state["net"])
        self.out.load_state_dict(state["out"])
        if fixed:
            self.opt.load_state_dict(state["opt"])
        self.global_step = state["global_step"]

    def fit(self, until, seed):
        while self.global_step < until:
            g = torch.Generator().manual_seed(1000 * seed + self.global_step)
            x = torch.randn(24, 9, 5, generator=g)
            hidden, _ = self.net(x)
            loss = nn.functional.mse_loss(self.out(hidden[:, -1]).squeeze(1), x[:, -3:].mean((1, 2)))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.global_step += 1
            if self.global_step % 8 == 0:
                self.save()
                print(f"step {self.global_step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--first-half", action="store_true", help="stop there")
    args = parser.parse_args()
    half = max(8, args.steps // 16 * 8)
    run = Run(args.seed)
    if args.first_half:
        run.fit(half, args.seed)
    else:
        subprocess.run([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--first-half"], check=True)
        run.resume(half, args.fixed)
        run.fit(max(args.steps, half + 8), args.seed)
