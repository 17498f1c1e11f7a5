import copy
import math
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class SinEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        f = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / (half - 1))
        a = t[:, None].float() * f[None]
        return torch.cat([a.sin(), a.cos()], -1)


class ResBlock(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, i), nn.Conv2d(i, o, 3, padding=1)
        self.t = nn.Linear(t, o)
        self.n2, self.c2 = nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class Attn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n, self.qkv, self.out = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.n(x)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        return x + self.out(y.transpose(1, 2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, ch=64, mults=(1, 2, 4)):
        super().__init__()
        t = ch * 4
        self.time = nn.Sequential(SinEmb(ch), nn.Linear(ch, t), nn.SiLU(), nn.Linear(t, t))
        self.inp = nn.Conv2d(3, ch, 3, padding=1)
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        c = ch
        for i, m in enumerate(mults):
            o = ch * m
            self.downs.append(nn.ModuleList([ResBlock(c, o, t), Attn(o) if i else nn.Identity(), nn.Conv2d(o, o, 3, 2, 1)]))
            c = o
        self.mid1, self.mid2, self.mida = ResBlock(c, c, t), ResBlock(c, c, t), Attn(c)
        for i, m in reversed(list(enumerate(mults))):
            o = ch * m
            self.ups.append(nn.ModuleList([nn.ConvTranspose2d(c, o, 4, 2, 1), ResBlock(2 * o, o, t), Attn(o) if i else nn.Identity()]))
            c = o
        self.out = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t):
        t = self.time(t)
        x = self.inp(x)
        skips = []
        for res, attn, down in self.downs:
            x = attn(res(x, t))
            skips.append(x)
            x = down(x)
        x = self.mid2(self.mida(self.mid1(x, t)), t)
        for up, res, attn in self.ups:
            x = up(x)
            x = attn(res(torch.cat([x, skips.pop()], 1), t))
        return self.out(x)


class Diffusion(nn.Module):
    def __init__(self, net, steps=1000):
        super().__init__()
        self.net, self.steps = net, steps
        beta = torch.linspace(1e-4, 0.02, steps)
        alpha = (1 - beta).cumprod(0)
        self.register_buffer("beta", beta)
        self.register_buffer("abar", alpha)

    def loss(self, x):
        t = torch.randint(0, self.steps, (x.size(0),), device=x.device)
        noise = torch.randn_like(x)
        a = self.abar[t][:, None, None, None]
        return F.mse_loss(self.net(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)

    @torch.no_grad()
    def sample(self, n, size=32):
        x = torch.randn(n, 3, size, size, device=self.beta.device)
        for i in reversed(range(self.steps)):
            t = torch.full((n,), i, device=x.device)
            eps = self.net(x, t)
            a, b = self.abar[i], self.beta[i]
            x = (x - b / (1 - a).sqrt() * eps) / (1 - b).sqrt()
            if i:
                x = x + b.sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1)


def ema_update(ema, model, decay=0.995):
    with torch.no_grad():
        for a, b in zip(ema.parameters(), model.parameters()):
            a.lerp_(b, 1 - decay)


def main():
    device = "cuda"
    torch.backends.cudnn.benchmark = True
    tf = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)])
    loader = DataLoader(datasets.CIFAR10("data", train=True, download=True, transform=tf), batch_size=128, shuffle=True, num_workers=4, pin_memory=True, drop_last=True)
    model = Diffusion(UNet()).to(device)
    ema = copy.deepcopy(model).eval().requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
    step = 0
    for epoch in range(500):
        for x, _ in loader:
            loss = model.loss(x.to(device, non_blocking=True))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            ema_update(ema, model)
            step += 1
            if step % 5000 == 0:
                images = ema.sample(16)
                torch.save(images.cpu(), f"sample{step}.pt")


if __name__ == "__main__":
    main()
