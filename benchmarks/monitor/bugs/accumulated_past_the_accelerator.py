"""Within accelerator.accumulate() the loss goes backward by itself, so that nobody divides it by the number of passes."""
# source: https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
# first effect: step 0
# names: backward
# family: gradients
# detectable: yes an accumulation was set up that divides losses, and none of them goes through it

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    torch.manual_seed(args.seed)
    points = torch.randn(32 * args.steps, 10)
    data = TensorDataset(points, (points[:, 0] > points[:, 1]).long())
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    net, optimizer, loader = accelerator.prepare(net, optimizer, DataLoader(data, batch_size=8, shuffle=True))
    net.train()
    for count, (batch, labels) in enumerate(loader):
        with accelerator.accumulate(net):
            loss = nn.functional.cross_entropy(net(batch), labels)
            if args.fixed:
                accelerator.backward(loss)
            else:
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if count % 40 == 0:
            accelerator.print(f"{count} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
