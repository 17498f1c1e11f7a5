"""Blocks with dropout under activation checkpointing that does not keep the random state: the second run drops other activations."""
# source: https://github.com/allenai/OLMo-core/pull/828
# first effect: step 0
# names: blocks, dropout
# family: gradients
# detectable: yes what a block gives when it is run again for the backward pass is not what it gave before

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(drop)

    def forward(self, x):
        mixed = self.down(F.gelu(self.up(self.norm(x))))
        causal = torch.cumsum(mixed, 1) / torch.arange(1, x.shape[1] + 1).view(1, -1, 1)
        return x + self.dropout(causal)


class LM(nn.Module):
    def __init__(self, vocabulary, width, keep_random_state):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, 0.1) for _ in range(3))
        self.head = nn.Linear(width, vocabulary)
        self.keep = keep_random_state

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=self.keep)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = LM(40, 32, keep_random_state=args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    data = torch.Generator().manual_seed(args.seed + 1)
    for step in range(args.steps):
        start = torch.randint(40, (8, 1), generator=data)
        tokens = (start + 3 * torch.arange(17)) % 40
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: CE {loss.item():.4f}")


if __name__ == "__main__":
    main()
