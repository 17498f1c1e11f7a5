"""`forward` makes its dropout on the spot: `eval()` never reaches it, and the validation is measured with dropout."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html
# first effect: step 10
# names: Dropout, dropout
# family: mode
# detectable: yes dropout drops while the model is in evaluation mode and gradients are off

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(10, 40), nn.Linear(40, 3)
        self.drop = nn.Dropout(0.4) if fixed else None

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = self.drop(x) if self.drop else nn.Dropout(0.4)(x)
        return self.fc2(x)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(400, 10)
    whole = TensorDataset(x, (x[:, :3] * 2).argmax(1))
    train, held = random_split(whole, [320, 80])
    model = Net(args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(args.steps // 10):
        for features, labels in DataLoader(train, batch_size=32, shuffle=True):
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} accuracy {validate(model, DataLoader(held, batch_size=40)):.4f}")


if __name__ == "__main__":
    main()
