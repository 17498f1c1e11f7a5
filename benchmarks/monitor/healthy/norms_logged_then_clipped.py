"""Gradient norms are measured by get_total_norm, logged, and handed to clip_grads_with_norm_; two learning rates, cosine decay."""

import argparse

import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.utils.data import DataLoader, TensorDataset


class Mixer(nn.Module):
    """Mixes along positions, then along channels."""

    def __init__(self, positions, width, classes):
        super().__init__()
        self.patch = nn.Linear(9, width)
        self.tokens = nn.Sequential(nn.Linear(positions, 2 * positions), nn.GELU(), nn.Linear(2 * positions, positions))
        self.channels = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch(x)
        x = x + self.tokens(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(x)
        return self.head(x.mean(dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    labels = torch.randint(0, 6, (384,))
    patches = torch.randn(384, 16, 9) + nn.functional.one_hot(labels % 9, 9)[:, None] * 1.5
    loader = DataLoader(TensorDataset(patches, labels), batch_size=24, shuffle=True, drop_last=True)
    model = Mixer(16, args.size, 6)
    groups = [{"params": model.head.parameters(), "lr": 2e-2}]
    groups.append({"params": [p for name, p in model.named_parameters() if not name.startswith("head")]})
    optimizer = torch.optim.SGD(groups, lr=5e-2, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    norms, step = [], 0
    while step < args.steps:
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.05)
            loss.backward()
            parameters = list(model.parameters())
            norm = get_total_norm([p.grad for p in parameters])
            clip_grads_with_norm_(parameters, 1.0, norm)
            norms.append(norm.item())
            optimizer.step()
            schedule.step()
            step += 1
            if step == args.steps:
                break
        print(f"step {step}: loss {loss.item():.4f}, median norm {sorted(norms)[len(norms) // 2]:.3f}")


if __name__ == "__main__":
    main()
