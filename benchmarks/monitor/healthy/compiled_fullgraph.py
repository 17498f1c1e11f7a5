"""A model under torch.compile with fullgraph=True (aot_eager backend), evaluated through the compiled module as well."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class SwiGLU(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gate, self.value, self.out = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return self.out(F.silu(self.gate(x)) * self.value(x))


class Net(nn.Module):
    def __init__(self, d, depth=2):
        super().__init__()
        self.stem = nn.Linear(12, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.ffs = nn.ModuleList(SwiGLU(d) for _ in range(depth))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(d, 4)

    def forward(self, x):
        x = self.stem(x)
        for norm, ff in zip(self.norms, self.ffs):
            x = x + self.drop(ff(norm(x)))
        return self.head(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--backend", default="aot_eager", choices=["aot_eager", "eager"])
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    model = Net(args.size)
    compiled = torch.compile(model, backend=args.backend, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    w = torch.randn(12, 4)
    val = torch.randn(128, 12)
    for step in range(args.steps):
        compiled.train()
        x = torch.randn(32, 12)
        loss = F.cross_entropy(compiled(x), (x @ w).argmax(1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            compiled.eval()
            with torch.no_grad():
                acc = (compiled(val).argmax(1) == (val @ w).argmax(1)).float().mean()
            print(f"step {step} loss {loss.item():.4f} acc {acc.item():.3f}")


main()
