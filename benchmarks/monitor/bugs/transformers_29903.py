"""A trainer that saves the state dict it was handed when it was made, instead of that of the model it has trained."""
# source: https://github.com/huggingface/transformers/issues/29903
# first effect: step 10
# names: torch.save, state_dict, body.0.weight
# family: checkpoint
# detectable: yes what is saved under the names of the weights is not what the trained weights hold

import argparse
import copy
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.head = nn.Linear(48, 4)

    def forward(self, x):
        return self.head(self.body(x))


class Trainer:
    def __init__(self, model, folder, fixed):
        self.model = model
        self.folder = Path(folder)
        self.fixed = fixed
        self.accelerated = copy.deepcopy(model) if not fixed else model
        self.optimizer = torch.optim.Adam(self.accelerated.parameters(), lr=3e-3)

    def save(self, step):
        torch.save(self.model.state_dict(), self.folder / f"checkpoint-{step}.pt")

    def train(self, steps, teacher):
        for step in range(1, steps + 1):
            x = torch.randn(64, 16)
            loss = F.cross_entropy(self.accelerated(x), (x @ teacher).argmax(dim=1))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % 10 == 0:
                self.save(step)
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    teacher = torch.randn(16, 4)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Net(), folder, args.fixed)
        loss = trainer.train(args.steps, teacher)
        restored = Net()
        restored.load_state_dict(torch.load(Path(folder) / f"checkpoint-{args.steps // 10 * 10}.pt"))
    x = torch.randn(512, 16)
    with torch.no_grad():
        again = F.cross_entropy(restored(x), (x @ teacher).argmax(dim=1)).item()
    print(f"loss in training {loss:.4f}, of the checkpoint {again:.4f}")


if __name__ == "__main__":
    main()
