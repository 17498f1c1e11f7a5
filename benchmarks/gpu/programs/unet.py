"""A U-Net learns to take noise away (diffusion) under autocast to bf16: batches of 64 pictures of 64 x 64."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.norm1 = nn.GroupNorm(32, inside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.time = nn.Linear(512, outside)
        self.norm2 = nn.GroupNorm(32, outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, width, height, across = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, 3, 4, width // 4, height * across).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(batch, width, height, across))


class UNet(nn.Module):
    def __init__(self, widths=(128, 256, 384, 512)):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 512))
        self.first = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        inside = widths[0]
        for width in widths:
            self.down.append(nn.ModuleList([Block(inside, width), Block(width, width)]))
            inside = width
        self.middle = nn.ModuleList([Block(inside, inside), Attention(inside), Block(inside, inside)])
        for width in reversed(widths):
            self.up.append(nn.ModuleList([Block(inside + width, width), Block(width, width)]))
            inside = width
        self.last = nn.Sequential(nn.GroupNorm(32, inside), nn.SiLU(), nn.Conv2d(inside, 3, 3, padding=1))

    def forward(self, x, t):
        steps = torch.exp(torch.linspace(0, -9, 64, device=x.device))
        angles = t[:, None] * steps
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x = self.first(x)
        kept = []
        for first, second in self.down:
            x = second(first(x, time), time)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle[2](self.middle[1](self.middle[0](x, time)), time)
        for first, second in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = second(first(torch.cat([x, kept.pop()], dim=1), time), time)
        return self.last(x)


torch.manual_seed(0)
model = UNet().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device="cuda"), dim=0)

for step in range(12):
    clean = torch.rand(64, 3, 64, 64, device="cuda") * 2 - 1
    noise = torch.randn_like(clean)
    t = torch.randint(0, 1000, (64,), device="cuda")
    share = alphas[t][:, None, None, None]
    with torch.autocast("cuda", dtype=torch.bfloat16):
        seen = model(share.sqrt() * clean + (1 - share).sqrt() * noise, t.float())
        loss = F.mse_loss(seen, noise)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
