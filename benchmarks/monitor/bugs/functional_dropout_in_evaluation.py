"""`F.dropout` is called without `training=self.training` and stays on when the model is evaluated."""
# source: https://github.com/rixwew/pytorch-fm/issues/21
# first effect: step 10
# names: dropout
# family: mode
# detectable: yes dropout with a positive rate is active while its module is in evaluation mode

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class AttentionalFM(nn.Module):
    def __init__(self, fields, dim, fixed):
        super().__init__()
        self.fixed = fixed
        self.embed = nn.Embedding(fields * 10, dim)
        self.attention = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, 1)
        self.left, self.right = torch.triu_indices(fields, fields, offset=1)

    def forward(self, ids):
        e = self.embed(ids)
        pair = e[:, self.left] * e[:, self.right]
        weight = self.score(torch.relu(self.attention(pair))).softmax(dim=1)
        if self.fixed:
            weight = F.dropout(weight, p=0.2, training=self.training)
        else:
            weight = F.dropout(weight, p=0.2)
        return self.out((weight * pair).sum(1)).squeeze(1)


def click(ids):
    return ((ids[:, 0] + ids[:, 1] - 10) % 3 == 0).float()


def sample(n):
    return torch.randint(0, 10, (n, 5)) + 10 * torch.arange(5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = AttentionalFM(5, 16, args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    test = sample(300)
    for step in range(args.steps):
        ids = sample(128)
        loss = F.binary_cross_entropy_with_logits(model(ids), click(ids))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                once, again = (F.binary_cross_entropy_with_logits(model(test), click(test)).item() for _ in range(2))
            model.train()
            print(f"step {step} loss {loss.item():.4f} test {once:.4f} and the same again {again:.4f}")


if __name__ == "__main__":
    main()
