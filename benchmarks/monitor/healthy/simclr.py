"""SimCLR: two augmented views of a batch, NT-Xent loss, encoder with BatchNorm and a projection head."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return self.images.shape[0]

    def _augment(self, image):
        top, left = torch.randint(0, 5, (2,)).tolist()
        view = image[:, top : top + 12, left : left + 12]
        if torch.rand(1).item() < 0.5:
            view = torch.flip(view, dims=[2])
        return view * (0.8 + 0.4 * torch.rand(1)) + 0.05 * torch.randn(view.shape)

    def __getitem__(self, idx):
        return self._augment(self.images[idx]), self._augment(self.images[idx])


class Encoder(nn.Module):
    def __init__(self, width, dim=32):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.projector = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, dim))

    def forward(self, x):
        return F.normalize(self.projector(self.backbone(x)), dim=1)


def nt_xent(z, temperature):
    n = z.shape[0] // 2
    logits = z @ z.t() / temperature
    logits.fill_diagonal_(float("-inf"))
    positives = torch.cat([torch.arange(n, 2 * n), torch.arange(0, n)])
    return F.cross_entropy(logits, positives)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default=5, type=int)
    parser.add_argument("--steps", default=48, type=int)
    parser.add_argument("--size", default=16, type=int)
    parser.add_argument("--temperature", default=0.2, type=float)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    low = torch.randn(384, 3, 4, 4)
    images = F.interpolate(low, size=16, mode="bilinear")
    loader = DataLoader(TwoViews(images), batch_size=32, shuffle=True, drop_last=True)
    model = Encoder(args.size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)

    step = 0
    model.train()
    while step < args.steps:
        for left, right in loader:
            z = model(torch.cat([left, right], dim=0))
            loss = nt_xent(z, args.temperature)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 8 == 0:
                print(f"step {step:03d}  contrastive loss {loss.item():.4f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
