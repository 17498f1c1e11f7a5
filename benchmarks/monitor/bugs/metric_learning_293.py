"""A loss with proxies that casts the proxies themselves to the precision of what autocast gave out."""
# source: https://github.com/KevinMusgrave/pytorch-metric-learning/issues/293
# first effect: step 0
# names: proxies
# family: precision
# detectable: yes a parameter is of float32 before the first pass and of bfloat16 from then on

import argparse

import torch
from torch import nn


class ProxyAnchorLoss(nn.Module):
    def __init__(self, classes, size, fixed, margin=0.1, alpha=8.0):
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(classes, size))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")
        self.fixed, self.margin, self.alpha = fixed, margin, alpha

    def forward(self, embeddings, labels):
        if self.fixed:
            proxies = self.proxies.to(embeddings.dtype)
        else:
            self.proxies.data = self.proxies.data.to(embeddings.dtype)
            proxies = self.proxies
        cosine = nn.functional.normalize(embeddings) @ nn.functional.normalize(proxies).T
        mine = nn.functional.one_hot(labels, len(self.proxies)).bool()
        near = torch.where(mine, torch.exp(-self.alpha * (cosine - self.margin)), 0.0)
        far = torch.where(mine, 0.0, torch.exp(self.alpha * (cosine + self.margin)))
        return torch.log1p(near.sum(0)).mean() + torch.log1p(far.sum(0)).mean()


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU())
        self.embedder = nn.Linear(16, 12)

    def forward(self, x):
        return self.embedder(self.conv(x).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    trunk, loss_func = Trunk(), ProxyAnchorLoss(5, 12, args.fixed)
    trunk_optimizer = torch.optim.Adam(trunk.parameters(), lr=2e-3)
    loss_optimizer = torch.optim.SGD(loss_func.parameters(), lr=0.05)
    for iteration in range(args.steps // 2):
        labels = torch.randint(5, (40,))
        images = torch.randn(40, 1, 10, 10)
        images[torch.arange(40), 0, 2 * labels] += 2
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_func(trunk(images), labels)
        trunk_optimizer.zero_grad()
        loss_optimizer.zero_grad()
        loss.backward()
        trunk_optimizer.step()
        loss_optimizer.step()
        if iteration % 5 == 0:
            print(f"{iteration}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
