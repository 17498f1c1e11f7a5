"""Residual network with BatchNorm, Nesterov SGD, no decay on norms and biases, cosine schedule stepped by epoch."""

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, Dataset


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Identity()
        if stride != 1 or inplanes != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, base=8, classes=5):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, base, 3, padding=1, bias=False), nn.BatchNorm2d(base), nn.ReLU(inplace=True)
        )
        self.layer1 = nn.Sequential(BasicBlock(base, base), BasicBlock(base, base))
        self.layer2 = nn.Sequential(BasicBlock(base, 2 * base, 2), BasicBlock(2 * base, 2 * base))
        self.layer3 = nn.Sequential(BasicBlock(2 * base, 4 * base, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4 * base, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(self.pool(x).flatten(1))


class Stripes(Dataset):
    """Pictures with stripes whose frequency is the class; flipped at random when it is for training."""

    def __init__(self, n, seed, augment):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 5, (n,), generator=g)
        t = torch.linspace(0, 3.14159, 16)
        waves = torch.sin((self.labels[:, None] + 1) * t[None, :])
        self.images = waves[:, None, None, :].expand(n, 3, 16, 16) + 0.3 * torch.randn(n, 3, 16, 16, generator=g)
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i]
        if self.augment and torch.rand(()) < 0.5:
            image = image.flip(-2)
        return image, self.labels[i]


def split_decay(model, weight_decay):
    decay, rest = [], []
    for _, p in model.named_parameters():
        (decay if p.ndim > 1 else rest).append(p)
    return [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


@torch.no_grad()
def accuracy(model, loader):
    was_training = model.training
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train(was_training)
    return hits / len(loader.dataset)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=48)
    ap.add_argument("--size", type=int, default=8)
    opt = ap.parse_args()

    torch.manual_seed(opt.seed)
    train_dl = DataLoader(Stripes(384, opt.seed + 100, True), batch_size=32, shuffle=True, drop_last=True)
    val_dl = DataLoader(Stripes(96, opt.seed + 200, False), batch_size=48)
    epochs = max(1, -(-opt.steps // len(train_dl)))

    net = ResNet(opt.size)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    sgd = torch.optim.SGD(split_decay(net, 5e-4), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = CosineAnnealingLR(sgd, T_max=epochs)
    for epoch in range(epochs):
        net.train()
        running = 0.0
        for x, y in train_dl:
            sgd.zero_grad(set_to_none=True)
            loss = criterion(net(x), y)
            loss.backward()
            sgd.step()
            running += loss.item()
        lr = scheduler.get_last_lr()[0]
        scheduler.step()
        print(f"epoch {epoch:2d} lr {lr:.4f} loss {running / len(train_dl):.4f} val acc {accuracy(net, val_dl):.3f}")
