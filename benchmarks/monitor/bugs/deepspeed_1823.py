"""An Adam that counts its steps once for each parameter group: with three groups the bias correction runs three times too fast."""
# source: https://github.com/deepspeedai/DeepSpeed/pull/1823
# first effect: step 0
# names: step, optimizer0
# family: optimizer
# detectable: yes the count of steps that is kept for the weights grows by three in one step

import argparse

import torch
from torch import nn


class OwnAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), fixed=False):
        super().__init__(params, {"lr": lr, "betas": betas})
        self.fixed = fixed
        self.count = 0

    @torch.no_grad()
    def step(self, closure=None):
        if self.fixed:
            self.count += 1
        for group in self.param_groups:
            if not self.fixed:
                self.count += 1
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] = self.count
                first, second = group["betas"]
                state["exp_avg"].lerp_(p.grad, 1 - first)
                state["exp_avg_sq"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                size = (state["exp_avg_sq"] / (1 - second**self.count)).sqrt_().add_(1e-8)
                p.addcdiv_(state["exp_avg"], size, value=-group["lr"] / (1 - first**self.count))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(7, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 1))
    groups = [{"params": list(layer.parameters())} for layer in model if list(layer.parameters())]
    optimizer = OwnAdam(groups, lr=5e-3, fixed=args.fixed)
    for step in range(args.steps):
        x = torch.randn(48, 7)
        loss = nn.functional.smooth_l1_loss(model(x).squeeze(-1), x[:, 0].sin() + x[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
