"""A large batch goes through in chunks, and `backward` stands one level too far left: only the last chunk is learnt."""
# source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
# first effect: step 0
# names: forward, backward
# family: gradients
# detectable: yes of the training passes before a step most are never followed backward

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Conv1d(1, 8, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    phase = torch.arange(40) / 40 * 6.28
    y = torch.randint(5, (384,))
    x = torch.sin(phase * (y[:, None] + 1)) + 0.2 * torch.randn(384, 40)
    loader = DataLoader(TensorDataset(x[:, None], y), batch_size=64, shuffle=True)
    chunks = 4
    for epoch in range(args.steps // 6):
        for signal, label in loader:
            optimizer.zero_grad()
            for part, target in zip(signal.chunk(chunks), label.chunk(chunks), strict=True):
                loss = F.cross_entropy(model(part), target) / chunks
                if args.fixed:
                    loss.backward()
            if not args.fixed:
                loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {chunks * loss.item():.4f}")


if __name__ == "__main__":
    main()
