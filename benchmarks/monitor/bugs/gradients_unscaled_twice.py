"""The loop divides the gradients by the loss scale itself and the scaler does so once more in `step`: the updates are far too small."""
# source: https://github.com/THUDM/slime/pull/1842
# first effect: step 0
# names: GradScaler, SGD
# family: precision
# detectable: yes the scaler unscales gradients that somebody else has changed since the backward pass, and they all but vanish

import argparse

import torch
from torch import nn


def prepare_grads(model, scaler):
    inverse = 1.0 / scaler.get_scale()
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(inverse)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Embedding(40, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 40))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    successor = torch.randperm(40)
    for step in range(args.steps):
        token = torch.randint(0, 40, (128,))
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(token)
        loss = nn.functional.cross_entropy(logits.float(), successor[token])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if not args.fixed:
            prepare_grads(model, scaler)
        scaler.step(optimizer)
        scaler.update()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
