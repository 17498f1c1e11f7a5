"""One autocast context spans the whole run: its cache keeps serving the low-precision copies of the first weights."""
# source: https://github.com/X-GenGroup/Flow-Factory/pull/186
# first effect: step 1
# names: autocast
# family: precision
# detectable: yes an optimizer steps inside an open autocast context whose cache is on

import argparse
import contextlib

import torch
from torch import nn


def train(args):
    torch.manual_seed(args.seed)
    policy = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-3)
    states = torch.randn(256, 16)
    actions = states[:, :4].argmax(dim=1)

    def autocast():
        return torch.autocast("cpu", dtype=torch.bfloat16)

    around_all = contextlib.nullcontext() if args.fixed else autocast()
    with around_all:
        for step in range(args.steps):
            idx = torch.randint(0, 256, (64,))
            with autocast() if args.fixed else contextlib.nullcontext():
                logits = policy(states[idx])
                loss = nn.functional.cross_entropy(logits, actions[idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                print(f"[{step:3d}] loss={loss.item():.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=35)
    train(p.parse_args())
