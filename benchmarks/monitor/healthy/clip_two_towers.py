"""Image and text towers trained with a symmetric contrastive loss and a learned, clamped logit scale."""

import math
from argparse import ArgumentParser

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class TextTower(nn.Module):
    def __init__(self, vocab, width, out):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Parameter(torch.empty(8, width).normal_(std=0.01))
        self.block = nn.TransformerEncoderLayer(width, 4, width * 2, dropout=0.0, batch_first=True)
        self.projection = nn.Parameter(torch.empty(width, out).normal_(std=width**-0.5))

    def forward(self, tokens):
        x = self.block(self.token(tokens) + self.position)
        return x.mean(dim=1) @ self.projection


class ImageTower(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.patch = nn.Conv2d(3, width, kernel_size=4, stride=4)
        self.block = nn.TransformerEncoderLayer(width, 4, width * 2, dropout=0.0, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, out, bias=False)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        return self.projection(self.norm(self.block(x)).mean(dim=1))


class CLIP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.visual = ImageTower(width, 32)
        self.text = TextTower(32, width, 32)
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

    def forward(self, images, tokens):
        i = F.normalize(self.visual(images), dim=-1)
        t = F.normalize(self.text(tokens), dim=-1)
        return self.logit_scale.exp() * i @ t.t()


def make_pairs(n, rng):
    """A caption of two words says the colour of the upper and of the lower half."""
    palette = rng.normal(size=(16, 3)).astype(np.float32)
    top, bottom = rng.integers(0, 16, n), rng.integers(0, 16, n)
    images = np.empty((n, 3, 16, 16), np.float32)
    images[:, :, :8] = palette[top][:, :, None, None]
    images[:, :, 8:] = palette[bottom][:, :, None, None]
    images += 0.1 * rng.normal(size=images.shape).astype(np.float32)
    tokens = np.zeros((n, 8), np.int64)
    tokens[:, 0], tokens[:, 1] = top, 16 + bottom
    return torch.from_numpy(images), torch.from_numpy(tokens)


if __name__ == "__main__":
    ap = ArgumentParser()
    ap.add_argument("--seed", type=int, default=11)
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--size", type=int, default=32)
    ns = ap.parse_args()

    torch.manual_seed(ns.seed)
    rng = np.random.default_rng(ns.seed)
    images, tokens = make_pairs(512, rng)
    model = CLIP(ns.size)
    exclude = lambda n, p: p.ndim < 2 or "ln" in n or "bias" in n or "logit_scale" in n  # noqa: E731
    named = list(model.named_parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in named if exclude(n, p)], "weight_decay": 0.0},
            {"params": [p for n, p in named if not exclude(n, p)], "weight_decay": 0.2},
        ],
        lr=1e-3,
        betas=(0.9, 0.98),
        eps=1e-6,
    )
    batch = 32
    order, cursor = rng.permutation(len(images)), 0
    for step in range(ns.steps):
        if cursor + batch > len(order):
            order, cursor = rng.permutation(len(images)), 0
        pick = torch.from_numpy(order[cursor : cursor + batch])
        cursor += batch
        logits = model(images[pick], tokens[pick])
        target = torch.arange(batch)
        loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(100))
        if step % 10 == 0 or step == ns.steps - 1:
            print(f"step {step} loss {loss.item():.3f} scale {model.logit_scale.exp().item():.2f}")
