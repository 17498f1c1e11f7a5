"""A moving average over the whole state averages the unit vectors of spectral norm too: they shrink, and the averaged model explodes."""
# source: https://github.com/NCAR/miles-credit/pull/394
# first effect: step 8
# names: weight_u, weight_v
# family: checkpoint
# detectable: yes vectors that spectral norm keeps at length one are loaded with a smaller length

import argparse

import torch
from torch import nn
from torch.nn.utils import spectral_norm


class EMATracker:
    def __init__(self, model, decay, fixed):
        self.decay, self.fixed = decay, fixed
        self.shadow = {name: value.clone() for name, value in model.state_dict().items()}

    def update(self, model):
        for name, value in model.state_dict().items():
            if self.fixed and name.endswith(("weight_u", "weight_v")):
                self.shadow[name].copy_(value)
            else:
                self.shadow[name].lerp_(value, 1 - self.decay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(spectral_norm(nn.Linear(6, 20)), nn.ReLU(), spectral_norm(nn.Linear(20, 6)))
    tracker = EMATracker(model, 0.5, args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    held = torch.randn(64, 6)
    for step in range(args.steps):
        x = torch.randn(32, 6)
        loss = nn.functional.mse_loss(model(x), 0.3 * x.roll(1, dims=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tracker.update(model)
        if step % 8 == 7:
            kept = {name: value.clone() for name, value in model.state_dict().items()}
            model.load_state_dict(tracker.shadow)
            model.eval()
            with torch.no_grad():
                error = nn.functional.mse_loss(model(held), 0.3 * held.roll(1, dims=1)).item()
            model.load_state_dict(kept)
            model.train()
            print(f"step {step} loss {loss.item():.5f} of the average {error:.5f}")


if __name__ == "__main__":
    main()
