"""An optimizer whose compiled update keeps the plan that it made in a step without gradients."""
# source: https://github.com/pytorch/pytorch/issues/115607
# first effect: step 8
# names: 0.weight, 2.weight, CompiledSGD.step
# family: optimizer
# detectable: yes weights with gradients no longer change in the optimizer's step

import argparse

import torch
from torch import nn


class CompiledSGD(torch.optim.Optimizer):
    """Descent with momentum; the list of what is updated is made once and guarded, as a compiler would."""

    def __init__(self, params, lr, momentum, guard_on_gradients):
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self.guard_on_gradients = guard_on_gradients
        self.plan = None
        self.guard = None

    def holds(self, present):
        if self.guard_on_gradients:
            return self.guard == present
        return self.guard is not None and len(self.guard) == len(present) and not (any(self.guard) and not all(present))

    @torch.no_grad()
    def step(self):
        parameters = [p for group in self.param_groups for p in group["params"]]
        present = [p.grad is not None for p in parameters]
        if self.plan is None or not self.holds(present):
            self.plan = [p for p, here in zip(parameters, present, strict=True) if here]
            self.guard = present
        lr, momentum = self.param_groups[0]["lr"], self.param_groups[0]["momentum"]
        for p in self.plan:
            velocity = self.state[p].setdefault("velocity", torch.zeros_like(p))
            velocity.mul_(momentum).add_(p.grad)
            p.sub_(velocity, alpha=lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    model = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 1))
    optimizer = CompiledSGD(model.parameters(), lr=0.02, momentum=0.8, guard_on_gradients=args.fixed)
    for step in range(args.steps):
        x = torch.randn(40, 12)
        usable = step != 7  # the eighth batch of this data is damaged, and skipped
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x).squeeze(1) - x.prod(dim=1).tanh() - x.sum(dim=1)).square().mean()
        if usable:
            loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}  first weight {model[0].weight[0, 0].item():.6f}")


if __name__ == "__main__":
    main()
