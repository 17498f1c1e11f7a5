"""A hook that collects intermediate features clones and detaches them, and the loss is made from what it collected."""
# source: https://github.com/lucidrains/CoCa-pytorch/issues/6
# first effect: step 0
# names: image_encoder.0.weight, image_encoder.0.bias, image_encoder.2.weight, image_encoder.2.bias, detach
# family: gradients
# detectable: yes the image encoder requires gradients, runs, belongs to the optimizer and never gets one

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Extractor:
    """Keep what a layer put out in its last forward pass."""

    def __init__(self, layer, detach):
        self.detach, self.latents = detach, None
        layer.register_forward_hook(self.hook)

    def hook(self, module, inputs, output):
        self.latents = output.clone().detach() if self.detach else output.clone()


class CoCa(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.image_encoder = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32), nn.LayerNorm(32))
        self.text_encoder = nn.EmbeddingBag(40, 32)
        self.temperature = nn.Parameter(torch.tensor(1.0))
        self.extractor = Extractor(self.image_encoder[2], detach=not fixed)

    def forward(self, images, words):
        self.image_encoder(images)
        i = F.normalize(self.extractor.latents, dim=-1)
        t = F.normalize(self.text_encoder(words), dim=-1)
        sim = i @ t.T * self.temperature.exp()
        target = torch.arange(len(images))
        return 0.5 * (F.cross_entropy(sim, target) + F.cross_entropy(sim.T, target))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = CoCa(args.fixed)
    model.image_encoder[3].requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    look = torch.randn(40, 48)
    for step in range(args.steps):
        words = torch.stack([torch.randperm(40)[:4] for _ in range(24)])
        images = look[words].sum(1) + 0.1 * torch.randn(24, 48)
        loss = model(images, words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"{step}: contrastive loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
