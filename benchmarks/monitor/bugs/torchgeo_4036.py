"""The names in a checkpoint lack the prefix of the model that wraps the network: with strict=False nothing is loaded."""
# source: https://github.com/torchgeo/torchgeo/issues/4036
# first effect: step 0
# names: load_state_dict
# family: checkpoint
# detectable: yes a load takes in none of the tensors that it is given

import argparse

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.decoder = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Pretrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Network()

    def forward(self, x):
        return self.model(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    published = Network().state_dict()
    backbone = Pretrained()
    if args.fixed:
        published = {f"model.{name}": value for name, value in published.items()}
    backbone.load_state_dict(published, strict=False)
    head = nn.Conv2d(2, 3, 1)
    optimizer = torch.optim.AdamW([*backbone.parameters(), *head.parameters()], lr=2e-3)
    torch.manual_seed(args.seed + 1)
    for step in range(args.steps):
        tiles = torch.randn(8, 2, 12, 12)
        kinds = (tiles[:, 0] > 0).long() + (tiles[:, 1] > 0).long()
        loss = nn.functional.cross_entropy(head(backbone(tiles)), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
