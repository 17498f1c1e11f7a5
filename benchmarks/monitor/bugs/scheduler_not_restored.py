"""Weights and moments are restored on resume but the schedule is not: the warm-up starts again in the middle of the run."""
# source: https://github.com/PolymathicAI/the_well/pull/63
# first effect: step 16
# names: LambdaLR, load_state_dict
# family: checkpoint
# detectable: yes the optimizer's state says step 16 and the schedule starts from 0, so that the rate jumps

import argparse
import math
import tempfile
from pathlib import Path

import torch
from torch import nn


def warmup_cosine(step, warmup=8, total=40):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


class Training:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, warmup_cosine)
        self.generator = torch.Generator().manual_seed(seed)
        self.step = 0

    def save_model(self, path):
        torch.save(
            {
                "model_state_dict": self.model.state_dict(),
                "optimizer_state_dict": self.optimizer.state_dict(),
                "lr_scheduler_state_dict": self.lr_scheduler.state_dict(),
                "generator": self.generator.get_state(),
                "step": self.step,
            },
            path,
        )

    def load_checkpoint(self, path, fixed):
        checkpoint = torch.load(path)
        self.model.load_state_dict(checkpoint["model_state_dict"])
        self.optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        self.generator.set_state(checkpoint["generator"])
        self.step = checkpoint["step"]
        if fixed:
            self.lr_scheduler.load_state_dict(checkpoint["lr_scheduler_state_dict"])
        else:
            # The rate follows from the schedule, which believes to be at its beginning.
            for group, rate in zip(self.optimizer.param_groups, self.lr_scheduler.get_last_lr(), strict=True):
                group["lr"] = rate

    def train(self, until):
        while self.step < until:
            field = torch.randn(8, 1, 12, 12, generator=self.generator)
            after = field.roll(1, 2) / 2 + field.roll(-1, 3) / 2
            loss = nn.functional.mse_loss(self.model(field), after)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.lr_scheduler.step()
            self.step += 1
            if self.step % 4 == 0:
                print(f"step {self.step} loss {loss.item():.4f} lr {self.lr_scheduler.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recent.pt"
        first = Training(args.seed)
        first.train(16)
        first.save_model(path)
        second = Training(args.seed)
        second.load_checkpoint(path, args.fixed)
        second.train(args.steps)
