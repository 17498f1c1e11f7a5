"""Fine-tuning of a residual network: what is not a batch norm is frozen, and the optimizer is given the classifier."""
# source: https://discuss.pytorch.org/t/84911
# first effect: step 0
# names: fc.weight, fc.bias
# family: optimizer
# detectable: yes the optimizer's parameters never receive a gradient and never change

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.short = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.short(x))


class SmallResNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1)
        self.layer1 = Block(16, 16)
        self.layer2 = Block(16, 32, 2)
        self.fc = nn.Linear(32, classes)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        return self.fc(x.mean(dim=(2, 3)))


def train(model, device, loader, optimizer, steps):
    model.train()
    done = 0
    while done < steps:
        for images, target in loader:
            images, target = images.to(device), target.to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), target)
            loss.backward()
            optimizer.step()
            done += 1
            if done % 10 == 0:
                print(f"{done}: {loss.item():.4f}")
            if done == steps:
                return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    images = torch.randn(160, 3, 16, 16)
    target = images.mean(dim=(1, 2, 3)).mul(60).long().clamp(-2, 2) + 2
    loader = DataLoader(TensorDataset(images, target), batch_size=16, shuffle=True)

    model = SmallResNet()
    for name, parameter in model.named_parameters():
        if args.fixed and name.startswith("fc"):
            continue
        if "bn" not in name:
            parameter.requires_grad = False
    optimizer = torch.optim.Adadelta(model.fc.parameters(), lr=1.0)

    before = model.fc.weight.detach().clone()
    train(model, torch.device("cpu"), loader, optimizer, args.steps)
    print("fc moved by", (model.fc.weight - before).norm().item())


if __name__ == "__main__":
    main()
