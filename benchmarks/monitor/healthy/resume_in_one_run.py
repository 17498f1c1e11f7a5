"""Save and resume within one program: model, optimizer, schedule and random state come back and training goes on."""

import argparse
import io
import random

import numpy as np
import torch
import torch.nn as nn


class Experiment:
    def __init__(self, size, steps):
        self.model = nn.Sequential(nn.Linear(9, size), nn.LeakyReLU(), nn.Dropout(0.2), nn.Linear(size, 3))
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=5e-3, amsgrad=True)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=steps)
        self.step = 0

    def checkpoint(self):
        buffer = io.BytesIO()
        torch.save(
            {
                "model": self.model.state_dict(),
                "opt": self.opt.state_dict(),
                "sched": self.sched.state_dict(),
                "step": self.step,
                "rng": {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()},
            },
            buffer,
        )
        return buffer.getvalue()

    def restore(self, blob):
        state = torch.load(io.BytesIO(blob), weights_only=False)
        self.model.load_state_dict(state["model"])
        self.opt.load_state_dict(state["opt"])
        self.sched.load_state_dict(state["sched"])
        self.step = state["step"]
        torch.set_rng_state(state["rng"]["torch"])
        np.random.set_state(state["rng"]["numpy"])
        random.setstate(state["rng"]["python"])

    def run(self, until):
        self.model.train()
        history = []
        while self.step < until:
            x = torch.randn(24, 9)
            y = (x[:, :3] * x[:, 3:6]).argmax(1)
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            self.step += 1
            history.append(loss.item())
        return history


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--seed", type=int, default=5)
    cli.add_argument("--steps", type=int, default=60)
    cli.add_argument("--size", type=int, default=32)
    args = cli.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    first = Experiment(args.size, args.steps)
    print("first half", first.run(args.steps // 2)[-1])
    blob = first.checkpoint()
    straight = first.run(args.steps)
    print("went on", straight[-1])

    second = Experiment(args.size, args.steps)
    second.restore(blob)
    resumed = second.run(args.steps)
    print("resumed", resumed[-1])
    if straight != resumed:
        raise SystemExit("the resumed run differs from the straight one")


if __name__ == "__main__":
    main()
