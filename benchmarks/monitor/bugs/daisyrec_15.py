"""A recommender whose last layer squashes its scores, which go into a loss that squashes them again."""
# source: https://github.com/yudi-mars/daisyRec/pull/15
# first effect: step 0
# names: predict, BCEWithLogitsLoss
# family: loss
# detectable: yes the scores are between zero and one and the loss takes logits

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, users, items, negatives):
        rng = np.random.default_rng(7)
        self.rows = []
        for user in range(users):
            for item in range(items):
                if (user + item) % 4 == 0:
                    self.rows.append((user, item, 1.0))
                    self.rows += [(user, int(rng.integers(items)), 0.0) for _ in range(negatives)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        user, item, label = self.rows[index]
        return user, item, np.float32(label)


class NeuMF(nn.Module):
    def __init__(self, users, items, factors, fixed):
        super().__init__()
        self.embed_user_gmf, self.embed_item_gmf = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.embed_user_mlp, self.embed_item_mlp = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.mlp = nn.Sequential(nn.Dropout(0.1), nn.Linear(2 * factors, factors), nn.ReLU())
        self.predict = nn.Linear(2 * factors, 1)
        self.squash = not fixed

    def forward(self, user, item):
        gmf = self.embed_user_gmf(user) * self.embed_item_gmf(item)
        mlp = self.mlp(torch.cat([self.embed_user_mlp(user), self.embed_item_mlp(item)], -1))
        score = self.predict(torch.cat([gmf, mlp], -1)).view(-1)
        return torch.sigmoid(score) if self.squash else score


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Pairs(24, 20, 3), batch_size=48, shuffle=True)
    model = NeuMF(24, 20, 8, args.fixed)
    criterion = nn.BCEWithLogitsLoss(reduction="sum")
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for epoch in range(args.steps // len(loader)):
        model.train()
        current = 0.0
        for user, item, label in loader:
            model.zero_grad()
            loss = criterion(model(user, item), label)
            loss.backward()
            optimizer.step()
            current += loss.item()
        print(f"epoch {epoch}: loss {current:.2f}")


if __name__ == "__main__":
    main()
