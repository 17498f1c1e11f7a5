"""The condition for a step is `index % k == 0`, true for the very first batch: it steps alone, and the last batches of the run are dropped."""
# source: https://github.com/rasbt/LLMs-from-scratch/pull/300
# first effect: step 0
# names: step, zero_grad
# family: gradients
# detectable: yes the first step uses one backward pass and all others four

import argparse

import torch
from torch import nn


def train_classifier(model, batches, optimizer, accumulation_steps, fixed):
    for batch_idx, (ids, label) in enumerate(batches):
        loss = nn.functional.cross_entropy(model(ids)[:, -1], label)
        loss = loss / accumulation_steps
        loss.backward()
        if fixed:
            is_update = (batch_idx + 1) % accumulation_steps == 0 or batch_idx + 1 == len(batches)
        else:
            is_update = batch_idx % accumulation_steps == 0
        if is_update:
            optimizer.step()
            optimizer.zero_grad()
        if batch_idx % 20 == 0:
            print(f"batch {batch_idx:03d} loss {loss.item() * accumulation_steps:.4f}")


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 24)
        self.block = nn.TransformerEncoderLayer(24, 2, 48, dropout=0.0, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, ids):
        return self.head(self.block(self.emb(ids)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = []
    for _ in range(4 * args.steps):
        ids = torch.randint(0, 40, (8, 6))
        data.append((ids, (ids[:, -1] < 20).long()))
    net = Tiny()
    train_classifier(net, data, torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.1), 4, args.fixed)
