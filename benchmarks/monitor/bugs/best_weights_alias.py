"""The best weights are kept as a reference, so they follow the training, and what is restored at the end is the last state."""
# source: https://github.com/pytorch/tutorials/pull/188
# first effect: step 30
# names: load_state_dict, state_dict
# family: checkpoint
# detectable: yes the load that should bring back earlier weights changes nothing

import argparse
import copy

import torch
from torch import nn


def train_model(model, phases, optimizer, scheduler, num_epochs, fixed):
    best_wts = copy.deepcopy(model.state_dict()) if fixed else model.state_dict()
    best = float("inf")
    for epoch in range(num_epochs):
        for phase in ("train", "val"):
            model.train(phase == "train")
            total = 0.0
            for x, y in phases[phase]:
                with torch.set_grad_enabled(phase == "train"):
                    loss = nn.functional.cross_entropy(model(x), y)
                    if phase == "train":
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                total += loss.item() / len(phases[phase])
            if phase == "train":
                scheduler.step()
            elif total < best:
                best = total
                best_wts = copy.deepcopy(model.state_dict()) if fixed else model.state_dict()
        print(f"epoch {epoch} val {total:.4f} best {best:.4f}")
    model.load_state_dict(best_wts)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    def split(count):
        x = torch.randn(count, 40, 10)
        noise = torch.randn(count, 40)
        return [(a, (a[:, 0] + 1.5 * b > 0).long()) for a, b in zip(x, noise, strict=True)]

    phases = {"train": split(3), "val": split(3)}
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.5)
    model = train_model(model, phases, optimizer, scheduler, args.steps // 3, args.fixed)
    with torch.no_grad():
        final = sum(nn.functional.cross_entropy(model(x), y).item() for x, y in phases["val"]) / len(phases["val"])
    print(f"restored model: val {final:.4f}")


if __name__ == "__main__":
    main()
