"""Hybrid recommender: SparseAdam for sparse embeddings, AdamW for the dense part, each with its own schedule."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Ratings(Dataset):
    def __init__(self, users, items, n, seed):
        g = torch.Generator().manual_seed(seed)
        u, v = torch.randn(users, 3, generator=g), torch.randn(items, 3, generator=g)
        self.user = torch.randint(0, users, (n,), generator=g)
        self.item = torch.randint(0, items, (n,), generator=g)
        self.score = (u[self.user] * v[self.item]).sum(1) + 0.1 * torch.randn(n, generator=g)

    def __len__(self):
        return len(self.user)

    def __getitem__(self, i):
        return {"user": self.user[i], "item": self.item[i], "score": self.score[i]}


class TwoTower(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=True)
        self.item = nn.Embedding(items, dim, sparse=True)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, batch):
        u, v = self.user(batch["user"]), self.item(batch["item"])
        return (u * v).sum(-1) + self.mlp(torch.cat([u, v], -1)).squeeze(-1)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=77)
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--size", type=int, default=8)
args = parser.parse_args()
torch.manual_seed(args.seed)
loader = DataLoader(Ratings(80, 60, 2560, args.seed), batch_size=64, shuffle=True)
model = TwoTower(80, 60, args.size)
sparse_opt = torch.optim.SparseAdam([model.user.weight, model.item.weight], lr=0.05)
dense_opt = torch.optim.AdamW(model.mlp.parameters(), lr=5e-3, weight_decay=1e-3)
dense_sched = torch.optim.lr_scheduler.PolynomialLR(dense_opt, total_iters=args.steps, power=1.0)

step = 0
while step < args.steps:
    for batch in loader:
        loss = (model(batch) - batch["score"]).pow(2).mean()
        sparse_opt.zero_grad()
        dense_opt.zero_grad()
        loss.backward()
        sparse_opt.step()
        dense_opt.step()
        dense_sched.step()
        step += 1
        if step % 16 == 0:
            print(f"step {step} mse {loss.item():.4f} dense lr {dense_sched.get_last_lr()[0]:.5f}")
        if step == args.steps:
            break
