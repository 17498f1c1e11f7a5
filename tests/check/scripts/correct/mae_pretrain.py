import math
import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def patchify(x, p):
    b, c, h, w = x.shape
    x = x.reshape(b, c, h // p, p, w // p, p)
    return x.permute(0, 2, 4, 3, 5, 1).reshape(b, (h // p) * (w // p), p * p * c)


class MAE(nn.Module):
    def __init__(self, size=32, patch=4, dim=192, depth=12, heads=3, ddim=96, ddepth=4, ratio=0.75):
        super().__init__()
        self.patch, self.ratio = patch, ratio
        self.n = (size // patch) ** 2
        self.embed = nn.Linear(patch * patch * 3, dim)
        self.pos = nn.Parameter(torch.zeros(1, self.n, dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        layer = lambda d, h: nn.TransformerEncoderLayer(d, h, 4 * d, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer(dim, heads), depth, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.to_decoder = nn.Linear(dim, ddim)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, ddim))
        self.dpos = nn.Parameter(torch.zeros(1, self.n + 1, ddim))
        self.decoder = nn.TransformerEncoder(layer(ddim, heads), ddepth, norm=nn.LayerNorm(ddim), enable_nested_tensor=False)
        self.head = nn.Linear(ddim, patch * patch * 3)
        for p in (self.pos, self.cls, self.mask_token, self.dpos):
            nn.init.normal_(p, std=0.02)

    def forward(self, x):
        target = patchify(x, self.patch)
        tokens = self.embed(target) + self.pos
        b, n, d = tokens.shape
        keep = int(n * (1 - self.ratio))
        noise = torch.rand(b, n, device=x.device)
        order = noise.argsort(dim=1)
        restore = order.argsort(dim=1)
        visible = torch.gather(tokens, 1, order[:, :keep, None].expand(-1, -1, d))
        z = self.encoder(torch.cat([self.cls.expand(b, -1, -1), visible], dim=1))
        z = self.to_decoder(z)
        masks = self.mask_token.expand(b, n - keep, -1)
        full = torch.cat([z[:, 1:], masks], dim=1)
        full = torch.gather(full, 1, restore[:, :, None].expand(-1, -1, full.shape[-1]))
        y = self.decoder(torch.cat([z[:, :1], full], dim=1) + self.dpos)[:, 1:]
        pred = self.head(y)
        mask = torch.ones(b, n, device=x.device)
        mask[:, :keep] = 0
        mask = torch.gather(mask, 1, restore)
        mean, var = target.mean(-1, keepdim=True), target.var(-1, keepdim=True)
        target = (target - mean) / (var + 1e-6).sqrt()
        loss = ((pred - target) ** 2).mean(-1)
        return (loss * mask).sum() / mask.sum()


def lr_at(step, total, warm, base):
    if step < warm:
        return base * step / warm
    return base * 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))


def main():
    device = "cuda"
    torch.backends.cuda.matmul.allow_tf32 = True
    tf = transforms.Compose([transforms.RandomResizedCrop(32, scale=(0.2, 1.0)), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize((0.49, 0.48, 0.45), (0.25, 0.24, 0.26))])
    data = datasets.CIFAR10("./data", train=True, download=True, transform=tf)
    loader = DataLoader(data, batch_size=512, shuffle=True, num_workers=8, pin_memory=True, drop_last=True, persistent_workers=True)
    model = MAE().to(device)
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}], lr=1.5e-4, betas=(0.9, 0.95))
    total, warm = 200 * len(loader), 20 * len(loader)
    step = 0
    for epoch in range(200):
        for x, _ in loader:
            for g in opt.param_groups:
                g["lr"] = lr_at(step, total, warm, 3e-4)
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                loss = model(x.to(device, non_blocking=True))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
        print(f"{epoch} {loss.item():.4f}")


if __name__ == "__main__":
    main()
