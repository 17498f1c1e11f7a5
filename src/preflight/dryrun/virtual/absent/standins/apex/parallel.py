"""apex.parallel in PyTorch's own form."""

from __future__ import annotations

from typing import Any

import torch

SyncBatchNorm = torch.nn.SyncBatchNorm


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """Gradients averaged over all ranks."""

    def __init__(self, module: Any, *settings: Any, **more: Any) -> None:
        super().__init__(module)


def convert_syncbn_model(module: Any, process_group: Any = None, channel_last: bool = False) -> Any:
    """Return the module with batch norms that look at all ranks."""
    return torch.nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)
