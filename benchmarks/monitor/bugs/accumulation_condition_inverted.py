"""`if (i + 1) % accumulate:` lacks its `== 0`: three of four micro-batches step, and the fourth waits for the next one."""
# source: https://huggingface.co/docs/transformers/perf_train_gpu_one
# first effect: step 0
# names: step
# family: gradients
# detectable: yes steps take the gradients of one pass, but every third takes those of two

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(40, 8), nn.Embedding(60, 8)
        self.bias = nn.Embedding(60, 1)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(1) + self.bias(item).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    user, item = torch.randint(40, (960,)), torch.randint(60, (960,))
    rating = torch.sin(user * 0.3) * torch.cos(item * 0.2)
    loader = DataLoader(TensorDataset(user, item, rating), batch_size=40, shuffle=True)
    model, accumulate = Embedder(), 4
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(args.steps // 6):
        for i, (u, v, r) in enumerate(loader):
            loss = nn.functional.mse_loss(model(u, v), r) / accumulate
            loss.backward()
            remainder = (i + 1) % accumulate
            if remainder == 0 if args.fixed else remainder:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {accumulate * loss.item():.4f}")


if __name__ == "__main__":
    main()
