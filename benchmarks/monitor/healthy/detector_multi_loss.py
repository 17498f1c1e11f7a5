"""A one-stage detector on a grid: objectness, class and box losses summed with weights; lists of targets collated by hand."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CELLS, CLASSES, SIDE = 4, 3, 32


class Boxes(Dataset):
    def __init__(self, n, seed):
        self.items = []
        g = torch.Generator().manual_seed(seed)
        for _ in range(n):
            image = 0.1 * torch.randn(CLASSES, SIDE, SIDE, generator=g)
            targets = []
            for _ in range(int(torch.randint(1, 4, (), generator=g))):
                w, h = (torch.rand(2, generator=g) * 6 + 5).tolist()
                x, y = (torch.rand(2, generator=g) * (SIDE - 12)).tolist()
                c = int(torch.randint(0, CLASSES, (), generator=g))
                image[c, int(y) : int(y + h), int(x) : int(x + w)] += 1
                targets.append([c, (x + w / 2) / SIDE, (y + h / 2) / SIDE, w / SIDE, h / SIDE])
            self.items.append((image, torch.tensor(targets)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate_fn(batch):
    return torch.stack([b[0] for b in batch]), [b[1] for b in batch]


def encode(targets):
    obj = torch.zeros(len(targets), CELLS, CELLS)
    cls = torch.zeros(len(targets), CELLS, CELLS, dtype=torch.long)
    box = torch.zeros(len(targets), CELLS, CELLS, 4)
    for b, rows in enumerate(targets):
        for c, cx, cy, w, h in rows.tolist():
            i, j = int(cy * CELLS), int(cx * CELLS)
            obj[b, i, j], cls[b, i, j] = 1.0, int(c)
            box[b, i, j] = torch.tensor([cx * CELLS - j, cy * CELLS - i, w, h])
    return obj, cls, box


class Detector(nn.Module):
    def __init__(self, width):
        super().__init__()
        layers, i = [], CLASSES
        for o in (width, 2 * width, 2 * width):
            layers += [nn.Conv2d(i, o, 3, 2, 1), nn.GroupNorm(4, o), nn.SiLU()]
            i = o
        self.backbone = nn.Sequential(*layers)
        self.obj, self.cls, self.box = nn.Conv2d(i, 1, 1), nn.Conv2d(i, CLASSES, 1), nn.Conv2d(i, 4, 1)

    def losses(self, images, targets):
        f = self.backbone(images)
        obj, cls, box = encode(targets)
        there = obj.bool()
        return {
            "objectness": F.binary_cross_entropy_with_logits(self.obj(f).squeeze(1), obj),
            "class": F.cross_entropy(self.cls(f).permute(0, 2, 3, 1)[there], cls[there]),
            "box": F.smooth_l1_loss(self.box(f).permute(0, 2, 3, 1)[there], box[there]),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--size", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Boxes(128, args.seed), batch_size=16, shuffle=True, collate_fn=collate_fn)
    detector = Detector(args.size)
    params = [p for p in detector.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=5e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1e-2, total_iters=10)
    weights = {"objectness": 1.0, "class": 0.5, "box": 5.0}
    step = 0
    while step < args.steps:
        for images, targets in loader:
            loss_dict = detector.losses(images, targets)
            loss = sum(weights[k] * v for k, v in loss_dict.items())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            warmup.step()
            if step % 8 == 0:
                print(step, {k: round(v.item(), 4) for k, v in loss_dict.items()})
            step += 1
            if step == args.steps:
                break
