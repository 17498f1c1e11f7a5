"""After each evaluation only the encoder is put back into training mode: the dropout of the head stays off."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train
# first effect: step 10
# names: head, encoder
# family: mode
# detectable: yes less dropout is active in a step than before an evaluation of the whole model

import argparse

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words=60, width=24, tags=5):
        super().__init__()
        self.encoder = nn.Sequential(nn.Embedding(words, width), nn.Dropout(0.2), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Sequential(nn.Dropout(0.4), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, tags))

    def forward(self, x):
        return self.head(self.encoder(x)).flatten(0, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    held = torch.randint(0, 60, (32, 8))
    for epoch in range(args.steps // 10):
        (model if args.fixed or not epoch else model.encoder).train()
        for _ in range(10):
            words = torch.randint(0, 60, (16, 8))
            loss = nn.functional.cross_entropy(model(words), (words % 5).flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(held).argmax(-1) == (held % 5).flatten()).float().mean()
        print(f"epoch {epoch} loss {loss.item():.4f} right {right.item():.3f}")


if __name__ == "__main__":
    main()
