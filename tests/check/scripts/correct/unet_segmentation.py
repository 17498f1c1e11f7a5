from pathlib import Path
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset, random_split
from tqdm import tqdm


class DoubleConv(nn.Module):
    def __init__(self, i, o, mid=None):
        super().__init__()
        mid = mid or o
        self.double_conv = nn.Sequential(nn.Conv2d(i, mid, 3, padding=1, bias=False), nn.BatchNorm2d(mid), nn.ReLU(inplace=True), nn.Conv2d(mid, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, i // 2, 2, stride=2)
        self.conv = DoubleConv(i, o)

    def forward(self, a, b):
        a = self.up(a)
        dy, dx = b.size(2) - a.size(2), b.size(3) - a.size(3)
        a = F.pad(a, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([b, a], dim=1))


class UNet(nn.Module):
    def __init__(self, c=3, k=1, widths=(64, 128, 256, 512, 1024)):
        super().__init__()
        self.inc = DoubleConv(c, widths[0])
        self.downs = nn.ModuleList([nn.Sequential(nn.MaxPool2d(2), DoubleConv(a, b)) for a, b in zip(widths[:-1], widths[1:])])
        self.ups = nn.ModuleList([Up(b, a) for a, b in reversed(list(zip(widths[:-1], widths[1:])))])
        self.out = nn.Conv2d(widths[0], k, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for down in self.downs:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up in self.ups:
            x = up(x, skips.pop())
        return self.out(x)


class Carvana(Dataset):
    def __init__(self, images, masks, size=(512, 512)):
        self.files = sorted(Path(images).glob("*.jpg"))
        self.masks, self.size = Path(masks), size

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        f = self.files[i]
        img = Image.open(f).convert("RGB").resize(self.size)
        mask = Image.open(self.masks / f"{f.stem}_mask.gif").convert("L").resize(self.size, Image.NEAREST)
        x = torch.from_numpy(np.array(img, dtype=np.float32) / 255).permute(2, 0, 1)
        y = torch.from_numpy((np.array(mask) > 0).astype(np.float32))[None]
        return {"image": x, "mask": y}


def dice_loss(p, t, eps=1.0):
    inter = (p * t).sum(dim=(1, 2, 3))
    return (1 - (2 * inter + eps) / (p.sum(dim=(1, 2, 3)) + t.sum(dim=(1, 2, 3)) + eps)).mean()


@torch.inference_mode()
def evaluate(net, loader, device):
    net.eval()
    score = 0
    for batch in tqdm(loader, leave=False):
        x, y = batch["image"].to(device), batch["mask"].to(device)
        pred = (torch.sigmoid(net(x)) > 0.5).float()
        score += 1 - dice_loss(pred, y)
    net.train()
    return score / max(len(loader), 1)


def train(device, epochs=5, batch_size=4, lr=1e-5, amp=True):
    data = Carvana("data/imgs", "data/masks")
    n_val = int(len(data) * 0.1)
    train_set, val_set = random_split(data, [len(data) - n_val, n_val], generator=torch.Generator().manual_seed(0))
    args = dict(batch_size=batch_size, num_workers=4, pin_memory=True)
    train_loader = DataLoader(train_set, shuffle=True, **args)
    val_loader = DataLoader(val_set, shuffle=False, drop_last=True, **args)
    model = UNet().to(device=device, memory_format=torch.channels_last)
    opt = torch.optim.RMSprop(model.parameters(), lr=lr, weight_decay=1e-8, momentum=0.999, foreach=True)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, "max", patience=5)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    crit = nn.BCEWithLogitsLoss()
    for epoch in range(1, epochs + 1):
        model.train()
        with tqdm(total=len(train_set), desc=f"Epoch {epoch}/{epochs}", unit="img") as bar:
            for batch in train_loader:
                x = batch["image"].to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
                y = batch["mask"].to(device=device)
                with torch.autocast(device.type, enabled=amp):
                    out = model(x)
                    loss = crit(out, y) + dice_loss(torch.sigmoid(out), y)
                opt.zero_grad(set_to_none=True)
                scaler.scale(loss).backward()
                scaler.unscale_(opt)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(opt)
                scaler.update()
                bar.update(x.shape[0])
        score = evaluate(model, val_loader, device)
        sched.step(score)
        torch.save(model.state_dict(), f"checkpoint_epoch{epoch}.pth")


if __name__ == "__main__":
    train(torch.device("cuda"))
