"""Averages of weights are kept by name, and a wrapper of the model has put something in front of each name."""
# source: https://github.com/wandb/senpai/pull/2899
# first effect: step 8
# names: shadow, _orig_mod
# family: optimizer
# detectable: yes each evaluation is made with the same weights, those from the beginning, while the training goes on

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Optimized(nn.Module):
    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    def forward(self, *args):
        return self._orig_mod(*args)


class EMA:
    def __init__(self, model, decay, fixed):
        self.decay, self.fixed, self.backup = decay, fixed, {}
        self.shadow = {self.clean(name): value.detach().clone() for name, value in model.named_parameters()}

    def clean(self, name):
        return name.removeprefix("_orig_mod.") if self.fixed else name

    @torch.no_grad()
    def update(self, model):
        for name, value in model.named_parameters():
            if self.clean(name) in self.shadow:
                self.shadow[self.clean(name)].mul_(self.decay).add_(value, alpha=1 - self.decay)

    @torch.no_grad()
    def swap_in(self, model):
        for name, value in model.named_parameters():
            self.backup[name] = value.clone()
            value.copy_(self.shadow[self.clean(name)])

    @torch.no_grad()
    def swap_out(self, model):
        for name, value in model.named_parameters():
            value.copy_(self.backup.pop(name))


class Surface(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 40), nn.Linear(40, 40), nn.Linear(40, 1)

    def forward(self, x):
        return self.third(torch.tanh(self.second(torch.tanh(self.first(x)))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(320, 4)
    y = torch.sin(x).prod(1, keepdim=True) * 3
    loader = DataLoader(TensorDataset(x[:256], y[:256]), 32, shuffle=True)
    model = Surface()
    ema = EMA(model, 0.8, args.fixed)
    compiled = Optimized(model)
    optimizer = torch.optim.AdamW(compiled.parameters(), lr=5e-3)
    for epoch in range(args.steps // len(loader)):
        compiled.train()
        for batch, target in loader:
            loss = nn.functional.huber_loss(compiled(batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(compiled)
        ema.swap_in(model)
        compiled.eval()
        with torch.no_grad():
            error = (compiled(x[256:]) - y[256:]).abs().mean()
        ema.swap_out(model)
        print(f"epoch {epoch}: loss {loss.item():.4f}, error {error.item():.4f}")


if __name__ == "__main__":
    main()
