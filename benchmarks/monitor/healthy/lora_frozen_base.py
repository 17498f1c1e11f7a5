"""Low-rank adapters on a frozen base: pretrained for some steps in the same program, then only the adapters are trained."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 4, alpha: int = 8, dropout: float = 0.05):
        super().__init__()
        self.base = base
        self.base.weight.requires_grad_(False)
        if self.base.bias is not None:
            self.base.bias.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(r, base.in_features) / r)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scaling = alpha / r
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(self.dropout(x), self.lora_A), self.lora_B) * self.scaling


class Backbone(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.inp = nn.Linear(20, d)
        self.fc1 = nn.Linear(d, d)
        self.fc2 = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, 5)

    def forward(self, x):
        x = F.gelu(self.inp(x))
        x = x + F.gelu(self.fc1(x))
        x = x + F.gelu(self.fc2(x))
        return self.head(self.norm(x))


def task(seed, teacher_seed, n=512):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(20, 5, generator=torch.Generator().manual_seed(teacher_seed))
    x = torch.randn(n, 20, generator=g)
    return x, (x @ w).argmax(1)


def inject(model, names):
    for name in names:
        setattr(model, name, LoRALinear(getattr(model, name)))


def fit(model, params, x, y, steps, lr, tag, gen):
    opt = torch.optim.AdamW(params, lr=lr, weight_decay=0.0)
    model.train()
    for step in range(steps):
        pick = torch.randint(0, len(x), (32,), generator=gen)
        loss = F.cross_entropy(model(x[pick]), y[pick])
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 10 == 0:
            print(f"{tag} {step:3d} {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)

    model = Backbone(args.size)
    x, y = task(args.seed, args.seed + 1)
    fit(model, model.parameters(), x, y, 20, 3e-3, "pretrain", gen)

    for p in model.parameters():
        p.requires_grad = False
    inject(model, ["fc1", "fc2"])
    trainable = [p for p in model.parameters() if p.requires_grad]
    print("trainable", sum(p.numel() for p in trainable), "of", sum(p.numel() for p in model.parameters()))
    x, y = task(args.seed + 2, args.seed + 3)
    fit(model, trainable, x, y, args.steps, 1e-2, "lora", gen)

    model.eval()
    with torch.no_grad():
        print("accuracy", (model(x).argmax(1) == y).float().mean().item())


if __name__ == "__main__":
    main()
