"""Small convolutional classifier on synthetic pictures, SGD with momentum, one evaluation after each epoch."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3)
        self.conv2 = nn.Conv2d(width, 2 * width, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(2 * width * 36, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def pictures(n, generator, prototypes):
    y = torch.randint(0, 10, (n,), generator=generator)
    x = prototypes[y] + 0.5 * torch.randn(n, 1, 16, 16, generator=generator)
    return TensorDataset(x, y)


def train(args, model, loader, optimizer, epoch, done):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        if done + batch_idx >= args.steps:
            return done + batch_idx
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(f"Train Epoch: {epoch} [{batch_idx}/{len(loader)}]\tLoss: {loss.item():.6f}")
    return done + len(loader)


def test(model, loader):
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(dim=1).eq(target).sum().item()
    n = len(loader.dataset)
    print(f"Test set: average loss {test_loss / n:.4f}, accuracy {correct}/{n}")


def main():
    parser = argparse.ArgumentParser(description="Synthetic digits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=8, help="channels of the first layer")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--log-interval", type=int, default=10)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    prototypes = torch.randn(10, 1, 16, 16, generator=generator)
    train_loader = DataLoader(pictures(640, generator, prototypes), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(pictures(200, generator, prototypes), batch_size=100)

    model = Net(args.size)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    done, epoch = 0, 1
    while done < args.steps:
        done = train(args, model, train_loader, optimizer, epoch, done)
        test(model, test_loader)
        epoch += 1


if __name__ == "__main__":
    main()
