"""A model with tied weights is made on the meta device and then given memory: embedding and head are two tensors from then on."""
# source: https://github.com/Modalities/modalities/issues/357
# first effect: step 0
# names: wte.weight, lm_head.weight
# family: init
# detectable: yes two parameters that were one when the model was made are two when it trains

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class GPT2(nn.Module):
    def __init__(self, vocabulary, width, tied):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.block = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.tie()

    def tie(self):
        self.lm_head.weight = self.wte.weight

    def initialise(self):
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.05)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()

    def forward(self, ids):
        h = self.wte(ids)
        return self.lm_head(h + self.block(h))


def materialise(model):
    """Replace each parameter that has no memory by one that has."""
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = nn.Parameter(torch.empty_like(parameter, device="cpu"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with torch.device("meta"):
        model = GPT2(64, 32, tied=True)
    materialise(model)
    if args.fixed:
        model.tie()
    model.initialise()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    for step in range(args.steps):
        ids = torch.arange(17)[None, :] + torch.randint(0, 40, (16, 1))
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
