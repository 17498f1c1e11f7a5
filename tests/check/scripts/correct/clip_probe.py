"""Linear probe on a frozen vision transformer of Hugging Face."""
from dataclasses import dataclass
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from transformers import ViTModel


@dataclass
class Config:
    name: str = "google/vit-base-patch16-224-in21k"
    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float = 0.0
    epochs: int = 20
    num_classes: int = 100


class Probe(nn.Module):
    def __init__(self, dim, classes):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, x):
        return self.fc(self.norm(x))


cfg = Config()
device = "cuda"
encoder = ViTModel.from_pretrained(cfg.name).to(device)
encoder.eval()
for p in encoder.parameters():
    p.requires_grad_(False)
probe = Probe(encoder.config.hidden_size, cfg.num_classes).to(device)
tf = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)])
train_set = datasets.CIFAR100("data", train=True, download=True, transform=tf)
loader = DataLoader(train_set, batch_size=cfg.batch_size, shuffle=True, num_workers=4, pin_memory=True, drop_last=True)
opt = torch.optim.AdamW(probe.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg.epochs * len(loader))
for epoch in range(cfg.epochs):
    probe.train()
    for x, y in loader:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.inference_mode():
            h = encoder(pixel_values=x).last_hidden_state[:, 0]
        logits = probe(h.clone())
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
