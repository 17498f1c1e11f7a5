"""A validation that puts the parts of a model into evaluation mode, and into training mode again before it uses them."""
# source: https://github.com/pliang279/MultiBench/issues/26
# first effect: step 8
# names: encoders, fusion, BatchNorm1d
# family: mode
# detectable: yes passes without gradients over other data are made in training mode and move running statistics

import argparse

import torch
from torch import nn


class MMDL(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoders = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 24), nn.BatchNorm1d(24), nn.ReLU()) for size in (6, 10)
        )
        self.fusion = nn.Sequential(nn.Linear(48, 24), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(24, 3)

    def forward(self, inputs):
        parts = [encoder(x) for encoder, x in zip(self.encoders, inputs, strict=True)]
        return self.head(self.fusion(torch.cat(parts, 1)))


def data(count, size, generator):
    sound, sight = torch.randn(count, 6, generator=generator), torch.randn(count, 10, generator=generator)
    label = (sound[:, :3] + sight[:, :3]).argmax(1)
    return list(zip(sound.split(size), sight.split(size), label.split(size), strict=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    train, valid = data(256, 32, generator), data(96, 32, generator)
    model = MMDL()
    op = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(args.steps // len(train)):
        model.train()
        for *inputs, label in train:
            op.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), label)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 8)
            op.step()
        model.eval()
        right = 0
        with torch.no_grad():
            if not args.fixed:
                model.train()
            for *inputs, label in valid:
                right += (model(inputs).argmax(1) == label).sum().item()
        print(f"Epoch {epoch} train loss: {loss.item():.4f} valid acc: {right / 96:.3f}")


if __name__ == "__main__":
    main()
