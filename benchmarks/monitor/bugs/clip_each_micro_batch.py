"""With accumulation, clipping after each micro-batch instead of once before the step clips the earlier ones again and again."""
# source: https://github.com/huggingface/transformers/issues/1563
# first effect: step 0
# names: clip_grad_norm_
# family: clipping
# detectable: yes clipping happens between two backward passes of one accumulated step

import argparse

import torch
import torch.nn as nn


def micro_batches(n, dim=12):
    for _ in range(n):
        x = torch.randn(16, dim)
        yield x, (x[:, 0] * x[:, 1] > 0).float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
    parser.add_argument("--max_grad_norm", type=float, default=0.1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    k = args.gradient_accumulation_steps
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    global_step = 0
    for i, (x, y) in enumerate(micro_batches(args.steps * k)):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        (loss / k).backward()
        if not args.fixed:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        if (i + 1) % k == 0:
            if args.fixed:
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
            optimizer.step()
            model.zero_grad()
            global_step += 1
            if global_step % 5 == 0:
                print(f"global step {global_step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
