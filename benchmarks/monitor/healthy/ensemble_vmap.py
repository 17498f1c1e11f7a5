"""An ensemble trained at once: stacked parameters, vmap over members, one Adam over the stack, disagreement reported."""

import argparse
import copy

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--members", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    members = [nn.Sequential(nn.Linear(1, args.size), nn.Tanh(), nn.Linear(args.size, 1)) for _ in range(args.members)]
    params, buffers = stack_module_state(members)
    skeleton = copy.deepcopy(members[0]).to("meta")

    def predict(p, b, x):
        return functional_call(skeleton, (p, b), (x,))

    ensemble = vmap(predict, in_dims=(0, 0, None))
    bootstrapped = vmap(predict, in_dims=(0, 0, 0))
    optimizer = torch.optim.Adam(params.values(), lr=1e-2)
    x = torch.rand(120, 1) * 2 - 1
    y = torch.sin(4 * x) + 0.1 * torch.randn(120, 1)
    for step in range(args.steps):
        pick = torch.randint(0, 120, (args.members, 40))
        loss = (bootstrapped(params, buffers, x[pick]) - y[pick]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 12 == 0:
            with torch.no_grad():
                inside = ensemble(params, buffers, torch.zeros(1, 1)).std().item()
                outside = ensemble(params, buffers, torch.full((1, 1), 3.0)).std().item()
            print(f"step {step} loss {loss.item():.4f} spread inside {inside:.3f} outside {outside:.3f}")


main()
