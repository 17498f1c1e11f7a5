import itertools
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from PIL import Image
from pathlib import Path
import random


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.b = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c), nn.ReLU(True), nn.ReflectionPad2d(1), nn.Conv2d(c, c, 3), nn.InstanceNorm2d(c))

    def forward(self, x):
        return x + self.b(x)


class G(nn.Module):
    def __init__(self, n=9):
        super().__init__()
        m = [nn.ReflectionPad2d(3), nn.Conv2d(3, 64, 7), nn.InstanceNorm2d(64), nn.ReLU(True)]
        c = 64
        for _ in range(2):
            m += [nn.Conv2d(c, c * 2, 3, 2, 1), nn.InstanceNorm2d(c * 2), nn.ReLU(True)]
            c *= 2
        m += [Res(c) for _ in range(n)]
        for _ in range(2):
            m += [nn.ConvTranspose2d(c, c // 2, 3, 2, 1, output_padding=1), nn.InstanceNorm2d(c // 2), nn.ReLU(True)]
            c //= 2
        m += [nn.ReflectionPad2d(3), nn.Conv2d(64, 3, 7), nn.Tanh()]
        self.m = nn.Sequential(*m)

    def forward(self, x):
        return self.m(x)


class D(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o, norm=True):
            layers = [nn.Conv2d(i, o, 4, stride=2, padding=1)]
            if norm:
                layers.append(nn.InstanceNorm2d(o))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers
        self.m = nn.Sequential(*block(3, 64, False), *block(64, 128), *block(128, 256), *block(256, 512), nn.ZeroPad2d((1, 0, 1, 0)), nn.Conv2d(512, 1, 4, padding=1))

    def forward(self, x):
        return self.m(x)


class Pool:
    def __init__(self, size=50):
        self.size, self.data = size, []

    def push(self, batch):
        out = []
        for e in batch.detach():
            e = e.unsqueeze(0)
            if len(self.data) < self.size:
                self.data.append(e)
                out.append(e)
            elif random.random() > 0.5:
                i = random.randint(0, self.size - 1)
                out.append(self.data[i].clone())
                self.data[i] = e
            else:
                out.append(e)
        return torch.cat(out)


class Pairs(Dataset):
    def __init__(self, root):
        self.a = sorted(Path(root, "trainA").glob("*.jpg"))
        self.b = sorted(Path(root, "trainB").glob("*.jpg"))
        self.t = transforms.Compose([transforms.Resize(286), transforms.RandomCrop(256), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])

    def __len__(self):
        return max(len(self.a), len(self.b))

    def __getitem__(self, i):
        a = Image.open(self.a[i % len(self.a)]).convert("RGB")
        b = Image.open(self.b[random.randint(0, len(self.b) - 1)]).convert("RGB")
        return self.t(a), self.t(b)


device = torch.device("cuda")
gab, gba, da, db = G().to(device), G().to(device), D().to(device), D().to(device)
og = torch.optim.Adam(itertools.chain(gab.parameters(), gba.parameters()), lr=2e-4, betas=(0.5, 0.999))
oda = torch.optim.Adam(da.parameters(), lr=2e-4, betas=(0.5, 0.999))
odb = torch.optim.Adam(db.parameters(), lr=2e-4, betas=(0.5, 0.999))
rule = lambda e: 1.0 - max(0, e - 100) / 100
scheds = [torch.optim.lr_scheduler.LambdaLR(o, rule) for o in (og, oda, odb)]
gan, cyc, idt = nn.MSELoss(), nn.L1Loss(), nn.L1Loss()
loader = DataLoader(Pairs("datasets/horse2zebra"), batch_size=1, shuffle=True, num_workers=4)
pa, pb = Pool(), Pool()
for epoch in range(200):
    for a, b in loader:
        a, b = a.to(device), b.to(device)
        og.zero_grad()
        fb, fa = gab(a), gba(b)
        ra, rb = gba(fb), gab(fa)
        pfb, pfa = db(fb), da(fa)
        loss_g = gan(pfb, torch.ones_like(pfb)) + gan(pfa, torch.ones_like(pfa)) + 10 * (cyc(ra, a) + cyc(rb, b)) + 5 * (idt(gba(a), a) + idt(gab(b), b))
        loss_g.backward()
        og.step()
        for o, d, real, fake in ((oda, da, a, pa.push(fa)), (odb, db, b, pb.push(fb))):
            o.zero_grad()
            pr, pf = d(real), d(fake)
            loss_d = 0.5 * (gan(pr, torch.ones_like(pr)) + gan(pf, torch.zeros_like(pf)))
            loss_d.backward()
            o.step()
    for s in scheds:
        s.step()
