"""A denoiser with an explicit gradient switches the recording of gradients off and leaves it so: layers called after it learn nothing."""
# source: https://github.com/deepinv/deepinv/issues/166
# first effect: step 0
# names: refine
# family: gradients
# detectable: yes parameters that an optimizer holds and a training pass uses get no gradient in any step

import argparse

import torch
from torch import nn


class Prior(nn.Module):
    """A frozen potential, of which the gradient with respect to the picture is wanted."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(24, 32), nn.ELU(), nn.Linear(32, 1))
        self.requires_grad_(False)

    def potential_grad(self, x, fixed):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        inner = x.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(self.energy(inner).sum(), inner)
        torch.set_grad_enabled(before if fixed else False)
        return slope


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    prior = Prior()
    lift = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 24))
    refine = nn.Linear(24, 24)
    model = nn.ModuleDict({"lift": lift, "refine": refine})
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    blur = torch.randn(24, 12) / 5
    for step in range(args.steps):
        torch.set_grad_enabled(True)
        sharp = torch.rand(16, 24)
        rough = lift(sharp @ blur)
        data_loss = nn.functional.mse_loss(rough, sharp)
        moved = rough - 0.1 * prior.potential_grad(rough, args.fixed)
        detail_loss = nn.functional.l1_loss(moved + refine(moved), sharp)
        torch.set_grad_enabled(True)
        loss = data_loss + detail_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
