"""Negative items are drawn once before the training: every epoch contrasts a user with the same few items."""
# source: https://github.com/guoyang9/NCF/issues/4
# first effect: step 8
# names: negatives
# family: data
# detectable: no an epoch that has the samples of the one before is what most programs have

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, liked, items):
        self.liked, self.items = liked, items
        self.negatives = None

    def draw(self):
        self.negatives = torch.randint(0, self.items, (len(self.liked),))

    def __len__(self):
        return 2 * len(self.liked)

    def __getitem__(self, index):
        user, item = self.liked[index // 2]
        return (user, item, 1.0) if index % 2 == 0 else (user, self.negatives[index // 2], 0.0)


class Factors(nn.Module):
    def __init__(self, users, items, width=8):
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.score = nn.Sequential(nn.Linear(2 * width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, user, item):
        return self.score(torch.cat([self.user(user), self.item(item)], dim=1)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    users = torch.randint(0, 20, (128,))
    data = Pairs(torch.stack([users, (users * 2 + torch.randint(0, 3, (128,))) % 50], dim=1), 50)
    data.draw()
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = Factors(20, 50)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.steps // 8):
        if args.fixed and epoch:
            data.draw()
        for user, item, label in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(user, item), label.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
