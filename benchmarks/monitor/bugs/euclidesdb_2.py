"""The softmax of a classifier runs over the pictures of a batch instead of over the classes."""
# source: https://github.com/perone/euclidesdb/issues/2
# first effect: step 0
# names: softmax
# family: loss
# detectable: yes what the loss takes for the probabilities of a picture's classes does not sum to one

import argparse

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, classes, fixed):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.fc = nn.Linear(6 * 9, classes)
        self.softmax = nn.Softmax(dim=1 if fixed else 0)

    def forward(self, pictures):
        return self.softmax(self.fc(self.features(pictures)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Classifier(4, args.fixed)
    criterion = nn.NLLLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    kinds = torch.randn(4, 1, 8, 8)
    for step in range(args.steps):
        y = torch.randint(4, (24,))
        x = kinds[y] + 0.7 * torch.randn(24, 1, 8, 8)
        probabilities = model(x)
        loss = criterion(torch.log(probabilities + 1e-9), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            right = (probabilities.argmax(1) == y).float().mean().item()
            print(f"step {step} loss {loss.item():.4f} accuracy {right:.2f}")


if __name__ == "__main__":
    main()
