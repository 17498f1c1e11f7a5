"""Self-supervised training with a linear head watched online: the head's own optimizer is not in the checkpoint."""
# source: https://github.com/microsoft/InnerEye-DeepLearning/issues/562
# first effect: step 25
# names: linear_head, Adam
# family: checkpoint
# detectable: yes after the load one optimizer goes on with its moments and the other begins without any

import argparse
import pathlib
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


class SSLOnline:
    def __init__(self, fixed):
        self.fixed = fixed
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16))
        self.projector = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))
        self.linear_head = nn.Linear(16, 3)
        self.modules = nn.ModuleDict({"e": self.encoder, "p": self.projector, "linear_head": self.linear_head})
        self.optimizer = torch.optim.Adam([*self.encoder.parameters(), *self.projector.parameters()], lr=2e-3)
        self.head_optimizer = torch.optim.Adam(self.linear_head.parameters(), lr=1e-2)

    def contrast(self, x):
        views = [F.normalize(self.projector(self.encoder(x + 0.3 * torch.randn_like(x)))) for _ in range(2)]
        similarity = views[0] @ views[1].T / 0.2
        same = torch.arange(len(x))
        return (F.cross_entropy(similarity, same) + F.cross_entropy(similarity.T, same)) / 2

    def step(self, x, y):
        loss = self.contrast(x)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            features = self.encoder(x)
        head_loss = F.cross_entropy(self.linear_head(features), y)
        self.head_optimizer.zero_grad()
        head_loss.backward()
        self.head_optimizer.step()
        return loss.item(), head_loss.item()

    def save(self, path):
        states = {"state_dict": self.modules.state_dict(), "optimizer": self.optimizer.state_dict()}
        if self.fixed:
            states["head_optimizer"] = self.head_optimizer.state_dict()
        torch.save(states, path)

    def load(self, path):
        states = torch.load(path)
        self.modules.load_state_dict(states["state_dict"])
        self.optimizer.load_state_dict(states["optimizer"])
        if "head_optimizer" in states:
            self.head_optimizer.load_state_dict(states["head_optimizer"])


def batch():
    y = torch.randint(3, (32,))
    x = torch.randn(32, 20)
    x[torch.arange(32), y] += 3
    return x, y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        recovery = pathlib.Path(folder) / "recovery.ckpt"
        module = SSLOnline(args.fixed)
        for _ in range(12):
            losses = module.step(*batch())
        print("before recovery: {:.3f} and {:.3f}".format(*losses))
        module.save(recovery)
        module = SSLOnline(args.fixed)
        module.load(recovery)
        for _ in range(12, args.steps // 2):
            losses = module.step(*batch())
        print("at the end: {:.3f} and {:.3f}".format(*losses))


if __name__ == "__main__":
    main()
