"""With accumulation, the schedule advances at every micro-batch although its length counts updates: the rate is zero after a quarter of the run."""
# source: https://github.com/huggingface/accelerate/pull/999
# first effect: step 0
# names: LambdaLR, AdamW
# family: schedule
# detectable: yes the scheduler steps four times for each step of the optimizer

import argparse

import torch
from torch import nn


def get_linear_schedule(optimizer, warmup, total):
    def rate(step):
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return max(0.0, (total - step) / (total - warmup))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--accumulation", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.EmbeddingBag(80, 32), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = get_linear_schedule(optimizer, 4, args.steps)
    polarity = torch.randn(80)
    optimizer.zero_grad()
    for index in range(args.steps * args.accumulation):
        words = torch.randint(0, 80, (16, 7))
        label = (polarity[words].sum(1) > 0).long()
        loss = nn.functional.cross_entropy(model(words), label) / args.accumulation
        loss.backward()
        update = (index + 1) % args.accumulation == 0
        if update:
            optimizer.step()
            optimizer.zero_grad()
        if update or not args.fixed:
            scheduler.step()
        if index % 16 == 15:
            rate = optimizer.param_groups[0]["lr"]
            print(f"update {(index + 1) // args.accumulation} loss {loss.item() * args.accumulation:.4f} lr {rate:.5f}")


if __name__ == "__main__":
    main()
