"""The key encoder of momentum contrast needs gradients and is handed to the optimizer, which steps what is averaged."""
# source: https://github.com/facebookresearch/moco/blob/main/moco/builder.py
# first effect: step 0
# names: keys
# family: optimizer
# detectable: yes parameters follow others between the steps and are stepped as well

import argparse
import copy

import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize


class Contrast(nn.Module):
    def __init__(self, frozen):
        super().__init__()
        self.queries = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 16))
        self.keys = copy.deepcopy(self.queries).requires_grad_(not frozen)
        self.register_buffer("queue", normalize(torch.randn(128, 16), dim=1))

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(self.keys.parameters(), self.queries.parameters(), strict=True):
            slow.mul_(0.99).add_(fast, alpha=0.01)

    def forward(self, one, other):
        self.follow()
        query, key = normalize(self.queries(one), dim=1), normalize(self.keys(other), dim=1)
        scores = torch.cat([(query * key).sum(1, keepdim=True), query @ self.queue.T], 1) / 0.2
        self.queue = torch.cat([self.queue[len(key) :], key.detach()])
        return cross_entropy(scores, torch.zeros(len(one), dtype=torch.long))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    scenes = torch.randn(400, 24)
    net = Contrast(frozen=args.fixed)
    trained = [one for one in net.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9, weight_decay=1e-4)
    for number in range(args.steps):
        scene = scenes[torch.randint(400, (16,))]
        views = [scene + 0.2 * torch.randn_like(scene) for _ in range(2)]
        optimizer.zero_grad()
        loss = net(*views)
        loss.backward()
        optimizer.step()
        if number % 8 == 7:
            print(f"step {number}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
