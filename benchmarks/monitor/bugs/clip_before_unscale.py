"""Gradients are clipped while they still carry the loss scale, so every one of them is cut to almost nothing."""
# source: https://github.com/Lightning-AI/pytorch-lightning/issues/9599
# first effect: step 0
# names: clip_grad_norm_, unscale_
# family: clipping
# detectable: yes clipping happens between scale and unscale_

import argparse

import torch
from torch import nn

cli = argparse.ArgumentParser()
cli.add_argument("--fixed", action="store_true")
cli.add_argument("--seed", type=int, default=0)
cli.add_argument("--steps", type=int, default=30)
opts = cli.parse_args()

torch.manual_seed(opts.seed)
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0, growth_interval=100)

for step in range(opts.steps):
    target = torch.randint(0, 4, (48,))
    images = 0.3 * torch.randn(48, 1, 8, 8)
    images[torch.arange(48), 0, target, :] += 1.0
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(images).float(), target)
    scaler.scale(loss).backward()
    if opts.fixed:
        scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 5 == 0 or step == opts.steps - 1:
        print(f"step={step} loss={loss.item():.4f} scale={scaler.get_scale():.0f}")
