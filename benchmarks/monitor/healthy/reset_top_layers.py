"""Fine-tuning with re-initialised top layers: the checkpoint is loaded whole, then its last block and head are made anew."""

import argparse
import io

import torch
from torch import nn


def build(width, classes):
    blocks = [nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU()) for _ in range(4)]
    return nn.ModuleDict(
        {"stem": nn.Linear(10, width), "blocks": nn.Sequential(*blocks), "head": nn.Linear(width, classes)}
    )


def forward(model, x):
    return model["head"](model["blocks"](model["stem"](x)))


def fit(model, optimizer, steps, target, word):
    for step in range(steps):
        x = torch.randn(64, 10)
        loss = nn.functional.cross_entropy(forward(model, x), target(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 15 == 0:
            print(f"{word} {step} loss {loss.item():.4f}")


def reset(module):
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    first = build(args.size, 3)
    fit(first, torch.optim.Adam(first.parameters(), lr=3e-3), args.steps // 2, lambda x: x[:, :3].argmax(1), "pretrain")
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)

    model = build(args.size, 3)
    model.load_state_dict(torch.load(file))
    model["blocks"][-1].apply(reset)
    model["head"] = nn.Linear(args.size, 2)
    groups = [
        {"params": [*model["stem"].parameters(), *model["blocks"].parameters()], "lr": 5e-4},
        {"params": model["head"].parameters(), "lr": 5e-3},
    ]
    fit(model, torch.optim.AdamW(groups), args.steps // 2, lambda x: (x[:, 0] > x[:, 1]).long(), "fine-tune")


if __name__ == "__main__":
    main()
