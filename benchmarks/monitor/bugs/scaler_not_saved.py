"""The loss scaler is left out of the checkpoint: the resumed run begins with the first scale and skips steps again."""
# source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html#saving-resuming
# first effect: step 16
# names: scaler, GradScaler, scale
# family: checkpoint
# detectable: yes model and optimizer are restored, and the scaler that went with them begins anew

import argparse

import torch
from torch import nn


def build():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=4)
    return model, optimizer, scaler


def train(model, optimizer, scaler, first, last, seed):
    for step in range(first, last):
        generator = torch.Generator().manual_seed(1000 * seed + step)
        x = torch.randn(32, 12, generator=generator)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x).squeeze(1).float(), x[:, 0] * x[:, 1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print(f"step {last} loss {loss.item():.4f} scale {scaler.get_scale():.0f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    half = args.steps // 2
    model, optimizer, scaler = build()
    train(model, optimizer, scaler, 0, half, args.seed)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": half}
    if args.fixed:
        state["scaler"] = scaler.state_dict()
    torch.save(state, "last.pt")

    model, optimizer, scaler = build()
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if "scaler" in state:
        scaler.load_state_dict(state["scaler"])
    train(model, optimizer, scaler, state["step"], args.steps, args.seed)


if __name__ == "__main__":
    main()
