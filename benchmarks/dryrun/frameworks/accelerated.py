"""Accelerate: fp16 with a loss scale, accumulation, a learning-rate schedule."""

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(64, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
data = torch.utils.data.TensorDataset(torch.randn(64, 64), torch.randint(0, 10, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for x, y in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
