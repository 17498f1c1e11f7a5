"""An epoch has seven batches and a step needs four: the gradients of the last three are never cleared and end up in the first step of the next epoch."""
# source: https://github.com/meta-pytorch/torchtune/pull/2745
# first effect: step 1
# names: zero_grad, step
# family: gradients
# detectable: yes steps take turns in using four and seven backward passes

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recipe:
    def __init__(self, args):
        self.args, self.accumulation = args, 4
        x = torch.randn(7 * 16, 10)
        data = TensorDataset(x, x[:, 0] * x[:, 1] + x[:, 2])
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9)

    def train(self):
        steps = epoch = 0
        while steps < self.args.steps:
            total = 0.0
            for idx, (x, y) in enumerate(self.loader):
                loss = nn.functional.mse_loss(self.model(x).squeeze(1), y)
                (loss / self.accumulation).backward()
                total += loss.item()
                if (idx + 1) % self.accumulation == 0:
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
                    steps += 1
            if self.args.fixed:
                self.optimizer.zero_grad(set_to_none=True)
            if epoch % 5 == 0:
                print(f"epoch {epoch} mean loss {total / len(self.loader):.4f}")
            epoch += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    Recipe(arguments).train()
