"""After a resume the schedule is made when the optimizer is loaded already: the rate goes back to where training began."""
# source: https://github.com/ultralytics/yolov5/issues/292
# first effect: step 15
# names: lr, LambdaLR
# family: checkpoint
# detectable: yes the first steps after the load have another rate than the one that was loaded, which the schedule had reached

import argparse
import io
import math

import torch
from torch import nn

EPOCHS, PER_EPOCH = 8, 5


def parts(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(12, 32), nn.SiLU(), nn.Linear(32, 3))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def cosine(epoch):
    return 0.1 + 0.9 * (1 + math.cos(math.pi * epoch / EPOCHS)) / 2


def train(model, optimizer, scheduler, first, last, truth):
    for epoch in range(first, last):
        for _ in range(PER_EPOCH):
            x = torch.randn(16, 12)
            loss = nn.functional.mse_loss(model(x), x @ truth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(f"epoch {epoch} loss {loss.item():.4f} rate {optimizer.param_groups[0]['lr']:.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    truth = torch.randn(12, 3, generator=torch.Generator().manual_seed(args.seed))
    model, optimizer = parts(args.seed)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)
    train(model, optimizer, scheduler, 0, 3, truth)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 2}, file)
    file.seek(0)

    model, optimizer = parts(args.seed + 1)
    saved = torch.load(file)
    model.load_state_dict(saved["model"])
    if args.fixed:
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.last_epoch = saved["epoch"] + 1
    else:
        optimizer.load_state_dict(saved["optimizer"])
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)
        scheduler.last_epoch = saved["epoch"] + 1
    train(model, optimizer, scheduler, 3, args.steps // PER_EPOCH, truth)


if __name__ == "__main__":
    main()
