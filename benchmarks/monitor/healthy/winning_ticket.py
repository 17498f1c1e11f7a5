"""A winning ticket: train, mask the smallest weights, set what is left back to its first values, and train again."""

import argparse

import torch
from torch import nn


def rounds(model, masks, optimizer, steps, generator):
    for _ in range(steps):
        inputs = torch.randn(32, 12, generator=generator)
        target = torch.sin(inputs[:, :4]).sum(1, keepdim=True)
        loss = nn.functional.mse_loss(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        for parameter, mask in masks.items():
            parameter.grad.mul_(mask)
        optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(12, args.size), nn.ReLU(), nn.Linear(args.size, args.size), nn.ReLU())
    model.append(nn.Linear(args.size, 1))
    first = {parameter: parameter.detach().clone() for parameter in model.parameters()}
    masks = {parameter: torch.ones_like(parameter) for parameter in model.parameters() if parameter.dim() > 1}
    generator = torch.Generator().manual_seed(args.seed)
    for ticket in range(3):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        loss = rounds(model, masks, optimizer, args.steps // 3, generator)
        kept = sum(mask.sum().item() for mask in masks.values()) / sum(mask.numel() for mask in masks.values())
        print(f"round {ticket}: loss {loss:.4f} with {kept:.0%} of the weights")
        if ticket < 2:
            with torch.no_grad():
                for parameter, mask in masks.items():
                    left = parameter.abs()[mask.bool()]
                    mask.mul_((parameter.abs() > left.quantile(0.2)).float())
                for parameter, value in first.items():
                    parameter.copy_(value * masks.get(parameter, 1.0))


if __name__ == "__main__":
    main()
