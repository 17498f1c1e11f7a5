"""Adapters in re-entrant checkpointed blocks above a frozen embedding: no input needs a gradient, so the adapters get none."""
# source: https://github.com/locuslab/open-unlearning/issues/178
# first effect: step 0
# names: blocks.0.down.weight, blocks.0.up.weight, blocks.1.down.weight, blocks.1.up.weight, checkpoint
# family: gradients
# detectable: yes trainable adapters never receive a gradient (torch also warns once)

import argparse

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, d, rank=4):
        super().__init__()
        self.base = nn.Linear(d, d)
        self.down = nn.Linear(d, rank, bias=False)
        self.up = nn.Linear(rank, d, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return x + torch.tanh(self.base(x) + self.up(self.down(x)))


class Model(nn.Module):
    def __init__(self, vocab=50, d=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList([Block(d) for _ in range(2)])
        self.score = nn.Linear(d, 3)

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=True)
        return self.score(h.mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Model()
    for name, p in model.named_parameters():
        p.requires_grad_("down" in name or "up" in name or "score" in name)
    if args.fixed:
        model.embed.register_forward_hook(lambda module, inputs, output: output.requires_grad_(True))
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    for step in range(args.steps):
        ids = torch.randint(0, 50, (32, 12))
        labels = (ids < 17).float().mean(1).mul(5).long().clamp(max=2)
        loss = nn.functional.cross_entropy(model(ids), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
