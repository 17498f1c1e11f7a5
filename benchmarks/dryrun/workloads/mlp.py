"""A perceptron with dropout: python mlp.py CASE."""

from __future__ import annotations

import torch
from torch import nn
from training import DEVICE, DTYPES, named, train

CASES = {
    "sgd": {"optimizer": "sgd"},
    "momentum": {"optimizer": "momentum"},
    "adam": {"optimizer": "adam", "clip": 1.0},
    "adamw-loop": {"optimizer": "adamw-loop"},
    "adamw-fused": {"optimizer": "fused"},
    "adafactor": {"optimizer": "adafactor"},
    "lion": {"optimizer": "lion"},
    "bf16-weights": {"precision": "bf16"},
    "amp-bf16": {"precision": "amp-bf16", "dropout": 0.1},
    "amp-fp16": {"precision": "amp-fp16", "clip": 1.0},
    "accumulation": {"accumulate": 4, "batch": 128},
    "average-and-evaluation": {"average": True, "evaluate": True, "dropout": 0.5},
    "gradients-kept": {"set_to_none": False},
}


def main(batch: int = 512, width: int = 1024, depth: int = 4, dropout: float = 0.0, **how: object) -> None:
    """Train on random pictures of 28 x 28."""
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(784, width)]
    for _ in range(depth):
        layers += [nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, width)]
    model = nn.Sequential(*layers, nn.ReLU(), nn.Linear(width, 10))
    precision = str(how.get("precision", "fp32"))
    dtype = DTYPES.get(precision, torch.float32)

    def batches() -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.randn(batch, 1, 28, 28, device=DEVICE, dtype=dtype)
        return images, torch.randint(0, 10, (batch,), device=DEVICE)

    train(model, batches, lambda model, x, y: nn.functional.cross_entropy(model(x), y), **how)


if __name__ == "__main__":
    main(**named(CASES))
