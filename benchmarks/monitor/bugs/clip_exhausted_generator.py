"""What is to be clipped is a `filter` object that the optimizer has already consumed: clipping gets nothing and does nothing."""
# source: https://github.com/PixArt-alpha/PixArt-alpha/pull/160
# first effect: step 0
# names: clip_grad_norm_
# family: clipping
# detectable: yes clipping is called with no parameters while the optimizer has many (torch also warns)

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)

transformer = nn.Sequential(nn.Linear(12, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 12))
transformer[0].requires_grad_(False)
lora_layers = filter(lambda p: p.requires_grad, transformer.parameters())
if args.fixed:
    lora_layers = list(lora_layers)
optimizer = torch.optim.SGD(lora_layers, lr=0.05)
target = torch.randn(12, 12)
for step in range(args.steps):
    latents = torch.randn(32, 12)
    loss = nn.functional.mse_loss(transformer(latents), 3 * latents @ target)
    loss.backward()
    params_to_clip = lora_layers
    torch.nn.utils.clip_grad_norm_(params_to_clip, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 6 == 0:
        print(f"step {step} loss {loss.item():.3f}")
