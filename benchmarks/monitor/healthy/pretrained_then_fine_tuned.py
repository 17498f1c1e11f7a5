"""A masked autoencoder is trained and saved; its encoder is loaded into a classifier, whose head begins anew, and fine-tuned."""

import argparse
import os
import tempfile

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Linear(12, width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, series):
        return self.layers(self.embed(series))


class Classifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.encoder = Encoder(width)
        self.head = nn.Linear(width, classes)
        nn.init.zeros_(self.head.bias)

    def forward(self, series):
        return self.head(self.encoder(series).mean(dim=1))


def series(count, seed):
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.randint(0, 3, (count,), generator=generator)
    time = torch.linspace(0, 1, 96)[None]
    waves = torch.sin(6.28 * (kinds[:, None] + 1) * (time + torch.rand(count, 1, generator=generator)))
    return (waves + 0.3 * torch.randn(count, 96, generator=generator)).view(count, 8, 12), kinds


def pretrain(args, path):
    encoder = Encoder(args.size)
    decoder = nn.Linear(args.size, 12)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=2e-3)
    for step in range(args.steps // 2):
        clean, _ = series(32, 10_000 + step)
        hidden = torch.rand(32, 8, 1) < 0.4
        rebuilt = decoder(encoder(clean.masked_fill(hidden, 0.0)))
        loss = ((rebuilt - clean) ** 2 * hidden).sum() / (12 * hidden.sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"pretrained: {loss.item():.4f}")
    torch.save({"encoder": encoder.state_dict(), "width": args.size}, path)


def finetune(args, path):
    saved = torch.load(path, weights_only=True)
    model = Classifier(saved["width"], 3)
    model.encoder.load_state_dict(saved["encoder"])
    optimizer = torch.optim.AdamW(
        [{"params": model.encoder.parameters(), "lr": 3e-4}, {"params": model.head.parameters(), "lr": 3e-3}]
    )
    for step in range(args.steps - args.steps // 2):
        x, y = series(32, 20_000 + step)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"fine-tuned: {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--size", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "encoder.pt")
        pretrain(args, path)
        finetune(args, path)


if __name__ == "__main__":
    main()
