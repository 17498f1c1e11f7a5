"""Fine-grained classification with a dropout layer that is made anew in each forward pass, so that no mode reaches it."""
# source: https://github.com/yangze0930/NTS-Net/issues/14
# first effect: step 8
# names: Dropout, dropout
# family: mode
# detectable: yes dropout is at work while the model is evaluated

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ResNet(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2, self.bn = nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 4)
        self.drop = nn.Dropout(p=0.5) if fixed else None

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(x + self.bn(self.conv2(x)))
        x = self.avgpool(x).flatten(1)
        x = self.drop(x) if self.drop is not None else nn.Dropout(p=0.5)(x)
        return self.fc(x)


def accuracy(net, loader):
    net.eval()
    right = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (net(images).argmax(1) == labels).sum().item()
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    labels = torch.arange(192) % 4
    images = torch.randn(192, 3, 12, 12) * 0.5 + torch.randn(4, 3, 1, 1)[labels]
    trainloader = DataLoader(TensorDataset(images[:128], labels[:128]), 16, shuffle=True)
    testloader = DataLoader(TensorDataset(images[128:], labels[128:]), 32)
    net = ResNet(args.fixed)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 3], gamma=0.1)
    for epoch in range(args.steps // len(trainloader)):
        net.train()
        for batch, target in trainloader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(batch), target)
            loss.backward()
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, test accuracy {accuracy(net, testloader):.4f}")


if __name__ == "__main__":
    main()
