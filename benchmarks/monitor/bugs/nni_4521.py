"""A network whose convolutions are replaced by smaller ones while it trains; the optimizer still holds the old ones."""
# source: https://github.com/microsoft/nni/issues/4521
# first effect: step 24
# names: conv1, conv2, bn1
# family: optimizer
# detectable: yes the new convolutions get gradients and never change, and the optimizer steps weights that nothing uses

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv2 = nn.Conv2d(12, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 4, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


def speed_up(net, keep):
    """Keep the channels of the first convolution with the largest norms, in smaller layers."""
    kept = net.conv1.weight.detach().flatten(1).norm(dim=1).topk(keep).indices.sort().values
    conv1, bn1, conv2 = nn.Conv2d(1, keep, 3, padding=1), nn.BatchNorm2d(keep), nn.Conv2d(keep, 16, 3, padding=1)
    with torch.no_grad():
        conv1.weight.copy_(net.conv1.weight[kept])
        conv1.bias.copy_(net.conv1.bias[kept])
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(bn1, name).copy_(getattr(net.bn1, name)[kept])
        conv2.weight.copy_(net.conv2.weight[:, kept])
        conv2.bias.copy_(net.conv2.bias)
    net.conv1, net.bn1, net.conv2 = conv1, bn1, conv2


def pictures(count, generator):
    x, y = torch.randn(count, 1, 8, 8, generator=generator), torch.randint(4, (count,), generator=generator)
    x[torch.arange(count), 0, 2 * y] += 1.5
    return TensorDataset(x, y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    net = LeNet()
    loader = DataLoader(pictures(256, torch.Generator().manual_seed(args.seed)), 32, shuffle=True)
    optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.steps // len(loader)):
        if epoch == 3:
            speed_up(net, 6)
            if args.fixed:
                optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            net.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
