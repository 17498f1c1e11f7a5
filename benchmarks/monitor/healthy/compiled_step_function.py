"""Forward and loss as one function under torch.compile (eager backend, fullgraph=True), plain optimizer outside."""

from argparse import ArgumentParser

import torch
from torch import nn

ap = ArgumentParser()
ap.add_argument("--seed", type=int, default=2)
ap.add_argument("--steps", type=int, default=50)
ap.add_argument("--size", type=int, default=24)
flags = ap.parse_args()
torch.manual_seed(flags.seed)

encoder = nn.Sequential(nn.Conv2d(1, flags.size, 3, 2, 1), nn.ReLU(), nn.Conv2d(flags.size, 4, 3, 2, 1))
decoder = nn.Sequential(
    nn.ConvTranspose2d(4, flags.size, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(flags.size, 1, 4, 2, 1)
)


@torch.compile(backend="eager", fullgraph=True)
def reconstruction_loss(noisy, clean):
    return ((decoder(encoder(noisy)) - clean) ** 2).mean()


params = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.NAdam(params, lr=4e-3)
for i in range(flags.steps):
    rows = torch.rand(16, 1, 16, 1) > 0.5
    cols = torch.rand(16, 1, 1, 16) > 0.5
    clean = (rows ^ cols).float()
    loss = reconstruction_loss(clean + 0.3 * torch.randn(16, 1, 16, 16), clean)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if i % 10 == 0:
        print(f"denoise {i} {loss.item():.4f}")
