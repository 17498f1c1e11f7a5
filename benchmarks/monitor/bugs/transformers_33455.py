"""A trainer that rounds its steps per epoch down, so that it stops and its rate ends before the epochs are over."""
# source: https://github.com/huggingface/transformers/issues/33455
# first effect: step 1
# names: lr_scheduler, max_steps
# family: schedule
# detectable: no the schedule and the number of steps agree with each other, only the epochs are short

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, dataset, epochs, accumulate, fixed):
        self.model, self.accumulate = model, accumulate
        self.loader = DataLoader(dataset, batch_size=8, shuffle=True)
        exact = len(self.loader) / accumulate
        steps_per_epoch = math.ceil(exact) if fixed else max(len(self.loader) // accumulate, 1)
        self.max_steps = math.ceil(epochs * steps_per_epoch)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
        self.lr_scheduler = torch.optim.lr_scheduler.LinearLR(
            self.optimizer, start_factor=1.0, end_factor=0.0, total_iters=self.max_steps
        )

    def train(self):
        done, seen = 0, 0
        while done < self.max_steps:
            self.optimizer.zero_grad()
            for index, (x, y) in enumerate(self.loader, 1):
                loss = nn.functional.mse_loss(self.model(x), y)
                (loss / self.accumulate).backward()
                seen += len(x)
                if index % self.accumulate == 0 or index == len(self.loader):
                    self.optimizer.step()
                    self.lr_scheduler.step()
                    self.optimizer.zero_grad()
                    done += 1
                if done == self.max_steps:
                    break
        return done, seen, loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24, help="three for each epoch")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    x = torch.randn(88, 12)
    y = torch.stack([x.sin().sum(dim=1), x.cos().sum(dim=1)], dim=1)
    model = nn.Sequential(nn.Linear(12, 40), nn.SiLU(), nn.Linear(40, 2))
    epochs = args.steps // 3
    done, seen, loss = Trainer(model, TensorDataset(x, y), epochs, accumulate=4, fixed=args.fixed).train()
    print(f"{done} steps, {seen / len(x):.2f} of {epochs} epochs, loss {loss:.4f}")


if __name__ == "__main__":
    main()
