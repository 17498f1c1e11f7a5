"""Learning to rank: scores of the documents of a query are compared in all pairs, and a distribution over them by attention pooling."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    scorer = nn.Sequential(nn.Linear(9, args.size), nn.ReLU(), nn.Linear(args.size, 1))
    optimizer = torch.optim.Adagrad(scorer.parameters(), lr=0.05)
    taste = torch.randn(9)
    for step in range(args.steps):
        documents = torch.randn(16, 9)
        relevance = (documents @ taste).argsort().argsort().float()
        score = scorer(documents)
        margin = score - score.t()
        order = (relevance[:, None] > relevance[None, :]).float()
        pairs = F.binary_cross_entropy_with_logits(margin, order, reduction="none")
        listwise = F.kl_div(F.log_softmax(score.squeeze(1), dim=0), F.softmax(relevance / 4, dim=0), reduction="sum")
        loss = pairs.sum() / order.sum() + 0.1 * listwise
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(
                f"step {step} loss {loss.item():.4f} right {((margin > 0).float() == order).float().mean().item():.3f}"
            )


if __name__ == "__main__":
    main()
