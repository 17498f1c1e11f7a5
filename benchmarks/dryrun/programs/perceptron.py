"""A perceptron from a list of layers, trained in fp32 with Adam: python perceptron.py JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZED = {"batch_normalization": nn.BatchNorm1d, "batchnorm": nn.BatchNorm1d, "BatchNorm1d": nn.BatchNorm1d}


def build(inputs: int, layers: list[list[Any]]) -> nn.Module:
    """Return the layers."""
    made: list[nn.Module] = []
    width = inputs
    for kind, outputs, _ in layers:
        if kind == "linear":
            made.append(nn.Linear(width, outputs))
        elif kind in SIZED:
            made.append(SIZED[kind](outputs))
        elif kind == "dropout":
            made.append(nn.Dropout(0.2))
        else:
            made.append(nn.Softmax(dim=1) if kind == "Softmax" else getattr(nn, kind)())
        width = outputs
    return nn.Sequential(*made)


def main(told: dict[str, Any]) -> None:
    """Train for three steps."""
    model = build(told["inputs"], told["layers"]).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    classes = told["layers"][-1][1]
    for _ in range(3):
        x = torch.randn(told["batch"], told["inputs"]).to(DEVICE)
        y = torch.randint(0, classes, (told["batch"],)).to(DEVICE)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
