"""Initialisation as in Caffe2."""

from __future__ import annotations

from typing import Any

import torch


def c2_xavier_fill(module: Any) -> None:
    """Draw weights evenly, by the size of the input."""
    torch.nn.init.kaiming_uniform_(module.weight, a=1)
    if module.bias is not None:
        torch.nn.init.constant_(module.bias, 0)


def c2_msra_fill(module: Any) -> None:
    """Draw normal weights, by the size of the output."""
    torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if module.bias is not None:
        torch.nn.init.constant_(module.bias, 0)
