import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import models, transforms as T
from torchvision.datasets import CIFAR10


class Views:
    def __init__(self, t):
        self.t = t

    def __call__(self, x):
        return self.t(x), self.t(x)


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(inplace=True), nn.Linear(h, o))


class BYOL(nn.Module):
    def __init__(self, m=0.996):
        super().__init__()
        net = models.resnet18(weights=None)
        net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        net.maxpool = nn.Identity()
        net.fc = mlp(512, 1024, 256)
        self.online, self.predictor = net, mlp(256, 1024, 256)
        self.target = copy.deepcopy(net)
        for p in self.target.parameters():
            p.requires_grad = False
        self.m = m

    @torch.no_grad()
    def update(self):
        for o, t in zip(self.online.parameters(), self.target.parameters()):
            t.data.mul_(self.m).add_(o.data, alpha=1 - self.m)

    def forward(self, a, b):
        pa, pb = self.predictor(self.online(a)), self.predictor(self.online(b))
        with torch.no_grad():
            ta, tb = self.target(a), self.target(b)
        return (2 - 2 * F.cosine_similarity(pa, tb).mean()) + (2 - 2 * F.cosine_similarity(pb, ta).mean())


def main():
    aug = T.Compose([T.RandomResizedCrop(32, (0.3, 1.0)), T.RandomHorizontalFlip(), T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8), T.RandomGrayscale(0.2), T.ToTensor()])
    loader = DataLoader(CIFAR10("data", transform=Views(aug), download=True), 256, shuffle=True, num_workers=8, drop_last=True, pin_memory=True)
    model = BYOL().cuda()
    params = list(model.online.parameters()) + list(model.predictor.parameters())
    opt = torch.optim.SGD(params, lr=0.06, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 200)
    for epoch in range(200):
        model.train()
        for (a, b), _ in loader:
            loss = model(a.cuda(non_blocking=True), b.cuda(non_blocking=True))
            opt.zero_grad()
            loss.backward()
            opt.step()
            model.update()
        sched.step()


if __name__ == "__main__":
    main()
