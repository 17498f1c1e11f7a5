"""Positions are numbered by the samples of the batch: every token of a text gets one and the same."""
# source: https://github.com/cmu-l3/anlp-fall2025-code/issues/1
# first effect: step 0
# names: positions, embedding
# family: other
# detectable: yes a table with more rows than samples is read at a row for each sample, counted from the first

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class OrderDataset(Dataset):
    """Class depends on whether token 1 comes before token 2."""

    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randint(3, vocab, (n, length), generator=g)
        first = torch.randint(0, length // 2, (n,), generator=g)
        second = torch.randint(length // 2, length, (n,), generator=g)
        self.y = torch.randint(0, 2, (n,), generator=g)
        for i in range(n):
            a, b = (1, 2) if self.y[i] else (2, 1)
            self.x[i, first[i]] = a
            self.x[i, second[i]] = b

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class TextClassifier(nn.Module):
    def __init__(self, vocab, d_model, n_layers, n_classes, max_len, fixed):
        super().__init__()
        self.fixed = fixed
        self.tok = nn.Embedding(vocab, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, 4, 4 * d_model, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.fc = nn.Linear(d_model, n_classes)

    def forward(self, x):
        if self.fixed:
            pos = torch.arange(x.size(1), device=x.device).unsqueeze(0)
        else:
            pos = torch.arange(x.size(0), device=x.device).unsqueeze(1)
        h = self.tok(x) + self.pos(pos)
        return self.fc(self.encoder(h).mean(dim=1))


def train_epoch(model, loader, optimizer, criterion):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * len(y)
    return total / len(loader.dataset)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hit = sum((model(x).argmax(-1) == y).sum().item() for x, y in loader)
    return hit / len(loader.dataset)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--fixed", action="store_true")
    args = p.parse_args()
    torch.manual_seed(args.seed)
    train = DataLoader(OrderDataset(640, 24, 60, 1), batch_size=32, shuffle=True)
    valid = DataLoader(OrderDataset(128, 24, 60, 2), batch_size=32)
    model = TextClassifier(60, 32, 2, 2, 64, args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(max(1, args.steps // len(train))):
        loss = train_epoch(model, train, optimizer, criterion)
        print(f"epoch {epoch} loss {loss:.4f} acc {evaluate(model, valid):.3f}")


if __name__ == "__main__":
    main()
