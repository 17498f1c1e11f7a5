"""When training goes on from saved adapters the base is not frozen: it is trained, too, and what is saved holds the adapters alone."""
# source: https://github.com/Blaizzy/mlx-vlm/pull/2181
# first effect: step 0
# names: base
# family: optimizer
# detectable: yes parameters that the optimizer trains are in none of the states that are saved

import argparse
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.lora_a = nn.Linear(dim, 2, bias=False)
        self.lora_b = nn.Linear(2, dim, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x))


class Model(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.layers = nn.Sequential(Layer(dim), nn.GELU(), Layer(dim))

    def forward(self, x):
        return self.layers(x)


def adapters(model):
    return {name: value for name, value in model.state_dict().items() if "lora_" in name}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "adapters.pt")
    torch.save(adapters(Model()), path)
    model = Model()
    model.load_state_dict(torch.load(path), strict=False)
    if args.fixed:
        for name, one in model.named_parameters():
            one.requires_grad_("lora_" in name)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=3e-3)
    rule = torch.randn(16, 16) / 4
    for step in range(args.steps):
        x = torch.randn(32, 16)
        loss = F.mse_loss(model(x), torch.tanh(x @ rule))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            torch.save(adapters(model), path)
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
