"""U-Net for binary segmentation of discs with a sum of BCE and Dice losses, augmentation by flips of picture and mask."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1, bias=False),
            nn.BatchNorm2d(o),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.inc = DoubleConv(1, base)
        self.down1 = DoubleConv(base, 2 * base)
        self.down2 = DoubleConv(2 * base, 4 * base)
        self.up1 = nn.ConvTranspose2d(4 * base, 2 * base, 2, 2)
        self.dec1 = DoubleConv(4 * base, 2 * base)
        self.up2 = nn.ConvTranspose2d(2 * base, base, 2, 2)
        self.dec2 = DoubleConv(2 * base, base)
        self.outc = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(F.max_pool2d(x1, 2))
        x3 = self.down2(F.max_pool2d(x2, 2))
        x = self.dec1(torch.cat([x2, self.up1(x3)], 1))
        x = self.dec2(torch.cat([x1, self.up2(x)], 1))
        return self.outc(x)


class Discs(Dataset):
    def __init__(self, n, side, seed, flips):
        self.flips = flips
        g = torch.Generator().manual_seed(seed)
        axis = torch.arange(side).float()
        cx, cy = torch.rand(2, n, 1, 1, generator=g) * side
        r = 3 + 4 * torch.rand(n, 1, 1, generator=g)
        self.mask = (((axis[None, None] - cx) ** 2 + (axis[None, :, None] - cy) ** 2) < r**2).float().unsqueeze(1)
        self.image = self.mask * 0.8 + 0.4 * torch.randn(n, 1, side, side, generator=g)

    def __len__(self):
        return len(self.image)

    def __getitem__(self, i):
        image, mask = self.image[i], self.mask[i]
        for dim in self.flips:
            if torch.rand(1) < 0.5:
                image, mask = image.flip(dim), mask.flip(dim)
        return image, mask


def dice_loss(logits, target, eps=1.0):
    p = logits.sigmoid()
    overlap = (p * target).sum((1, 2, 3))
    return 1 - ((2 * overlap + eps) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + eps)).mean()


@torch.inference_mode()
def evaluate(net, loader):
    net.eval()
    score = sum(1 - dice_loss(net(x), y).item() for x, y in loader) / len(loader)
    net.train()
    return score


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=36)
    ap.add_argument("--size", type=int, default=6)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    train_set, val_set = Discs(96, 24, args.seed, flips=(1, 2)), Discs(24, 24, args.seed + 1, flips=())
    train_loader = DataLoader(train_set, shuffle=True, batch_size=8)
    val_loader = DataLoader(val_set, batch_size=12)
    model = UNet(args.size)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=2)
    global_step = 0
    while global_step < args.steps:
        for images, masks in train_loader:
            pred = model(images)
            loss = F.binary_cross_entropy_with_logits(pred, masks) + dice_loss(pred, masks)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            global_step += 1
            if global_step % 6 == 0:
                val_score = evaluate(model, val_loader)
                scheduler.step(val_score)
                print(f"step {global_step} loss {loss.item():.4f} validation Dice {val_score:.4f}")
            if global_step >= args.steps:
                break


main()
