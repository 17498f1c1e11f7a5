"""Gradients are cleared as an accumulated batch begins: those of all batches but the last one go before the step."""
# source: https://github.com/huggingface/accelerate/issues/616
# first effect: step 0
# names: zero_grad
# family: gradients
# detectable: yes what several backward passes made is cleared right before the last one, step after step

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    kind = torch.randint(3, (16 * args.steps,))
    found = torch.randn(16 * args.steps, 10) + kind[:, None]
    loader = DataLoader(TensorDataset(found, kind), batch_size=4, shuffle=True)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for number, (features, answers) in enumerate(loader):
        with accelerator.accumulate(net):
            if not args.fixed:
                optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(features), answers)
            accelerator.backward(loss)
            optimizer.step()
            if args.fixed:
                optimizer.zero_grad()
        if number % 32 == 31:
            print(f"batch {number}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
