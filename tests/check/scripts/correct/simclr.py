import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision.transforms as T
from torch.cuda.amp import GradScaler, autocast
from torchvision.datasets import STL10
from torchvision.models import resnet18


class TwoViews:
    def __init__(self, base):
        self.base = base

    def __call__(self, x):
        return [self.base(x), self.base(x)]


class SimCLR(nn.Module):
    def __init__(self, out_dim=128):
        super().__init__()
        self.backbone = resnet18(weights=None, num_classes=out_dim)
        dim = self.backbone.fc.in_features
        self.backbone.fc = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), self.backbone.fc)

    def forward(self, x):
        return self.backbone(x)


def info_nce(features, temperature, device):
    n = features.shape[0] // 2
    labels = torch.cat([torch.arange(n) for _ in range(2)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float().to(device)
    features = F.normalize(features, dim=1)
    sim = features @ features.T
    mask = torch.eye(labels.shape[0], dtype=torch.bool, device=device)
    labels = labels[~mask].view(labels.shape[0], -1)
    sim = sim[~mask].view(sim.shape[0], -1)
    pos = sim[labels.bool()].view(labels.shape[0], -1)
    neg = sim[~labels.bool()].view(sim.shape[0], -1)
    logits = torch.cat([pos, neg], dim=1)
    target = torch.zeros(logits.shape[0], dtype=torch.long, device=device)
    return logits / temperature, target


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-b", "--batch-size", default=256, type=int)
    ap.add_argument("--lr", default=3e-4, type=float)
    ap.add_argument("--wd", default=1e-4, type=float)
    ap.add_argument("--temperature", default=0.07, type=float)
    ap.add_argument("--epochs", default=200, type=int)
    ap.add_argument("--fp16-precision", action="store_true")
    ap.add_argument("--disable-cuda", action="store_true")
    args = ap.parse_args()
    args.device = torch.device("cuda") if not args.disable_cuda and torch.cuda.is_available() else torch.device("cpu")
    jitter = T.ColorJitter(0.8, 0.8, 0.8, 0.2)
    aug = T.Compose([T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.RandomApply([jitter], p=0.8), T.RandomGrayscale(p=0.2), T.GaussianBlur(9), T.ToTensor()])
    data = STL10("./datasets", split="unlabeled", transform=TwoViews(aug), download=True)
    loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=12, pin_memory=True, drop_last=True)
    model = SimCLR().to(args.device)
    opt = torch.optim.Adam(model.parameters(), args.lr, weight_decay=args.wd)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=len(loader), eta_min=0, last_epoch=-1)
    criterion = nn.CrossEntropyLoss().to(args.device)
    scaler = GradScaler(enabled=args.fp16_precision)
    for epoch in range(args.epochs):
        for images, _ in loader:
            images = torch.cat(images, dim=0).to(args.device)
            with autocast(enabled=args.fp16_precision):
                features = model(images)
                logits, labels = info_nce(features, args.temperature, args.device)
                loss = criterion(logits, labels)
            opt.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        if epoch >= 10:
            sched.step()
        print(epoch, loss.item(), sched.get_last_lr()[0])
    torch.save({"epoch": args.epochs, "state_dict": model.state_dict(), "optimizer": opt.state_dict()}, "last.pth.tar")


if __name__ == "__main__":
    main()
