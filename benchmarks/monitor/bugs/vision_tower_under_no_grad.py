"""The vision tower is unfrozen and handed to the optimizer, but its forward pass still carries a no_grad decorator."""
# source: https://github.com/haotian-liu/LLaVA/issues/1173
# first effect: step 0
# names: vision_tower.patch.weight, vision_tower.patch.bias, vision_tower.norm.weight, vision_tower.norm.bias, no_grad
# family: gradients
# detectable: yes parameters that require gradients and belong to the optimizer never get one although their module runs

import argparse

import torch
from torch import nn


class VisionTower(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.patch = nn.Conv2d(3, 24, 4, stride=4)
        self.norm = nn.LayerNorm(24)

    def encode(self, images):
        return self.norm(self.patch(images).flatten(2).transpose(1, 2))

    @torch.no_grad()
    def encode_frozen(self, images):
        return self.encode(images)

    def forward(self, images):
        return self.encode(images) if self.fixed else self.encode_frozen(images)


class Assistant(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.vision_tower = VisionTower(fixed)
        self.projector = nn.Linear(24, 32)
        self.answer = nn.Linear(32, 4)

    def forward(self, images):
        return self.answer(torch.tanh(self.projector(self.vision_tower(images))).mean(1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--steps", type=int, default=30)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    model = Assistant(args.fixed)
    for param in model.vision_tower.parameters():
        param.requires_grad = True
    optimizer = torch.optim.AdamW(
        [
            {"params": model.vision_tower.parameters(), "lr": 1e-3},
            {"params": [*model.projector.parameters(), *model.answer.parameters()], "lr": 3e-3},
        ]
    )
    for step in range(args.steps):
        label = torch.randint(0, 4, (32,))
        images = 0.5 * torch.randn(32, 3, 16, 16)
        images[torch.arange(32), label % 3, :, ::2] += (1.5 * (label + 1) / 4)[:, None, None]
        loss = nn.functional.cross_entropy(model(images), label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
