"""The plateau scheduler watches the accuracy in its default mode `min`: the better the model gets, the more the rate is cut."""
# source: https://github.com/md-mohaiminul/ViS4mer/issues/4
# first effect: step 18
# names: ReduceLROnPlateau
# family: schedule
# detectable: no the scheduler does what it was told; that higher is better is in the author's mind

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=42)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    centers = torch.randn(8, 16)
    y_val = torch.randint(0, 8, (400,))
    x_val = centers[y_val] + 0.5 * torch.randn(400, 16)
    model = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = ReduceLROnPlateau(optimizer, mode="max" if args.fixed else "min", factor=0.2, patience=1)
    for epoch in range(args.steps // 6):
        model.train()
        for _ in range(6):
            y = torch.randint(0, 8, (48,))
            loss = nn.functional.cross_entropy(model(centers[y] + 0.5 * torch.randn(48, 16)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = (model(x_val).argmax(1) == y_val).float().mean().item()
        scheduler.step(accuracy)
        print(f"epoch {epoch} accuracy {accuracy:.3f} lr {optimizer.param_groups[0]['lr']:.2e}")


main()
