"""Adam, whose states are those of PyTorch's."""

from __future__ import annotations

from typing import Any

import torch


class FusedAdam(torch.optim.AdamW):
    """Adam in one kernel."""

    def __init__(self, params: Any, lr: float = 1e-3, *_: Any, **more: Any) -> None:
        given = {name: more[name] for name in ("betas", "eps", "weight_decay") if name in more}
        super().__init__(params, lr=lr, **given)


DeepSpeedCPUAdam = FusedAdam
