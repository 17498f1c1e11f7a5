"""Storages on the virtual GPU: they have an address, may be given back and taken anew in place, and be set by ``.data``."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine.gpu import Fake, VirtualGpu


def install(gpu: VirtualGpu) -> None:
    """Let storages of fake tensors answer what sharding asks of them."""
    kind: Any = torch.UntypedStorage
    resize, address = kind.resize_, kind.data_ptr

    def fake(storage: Any) -> bool:
        return storage.device.type in ("meta", private.BACKEND)

    def resized(storage: Any, size: int) -> Any:
        found = resize(storage, size)
        if fake(storage):
            gpu.ledger.resize(storage, int(size))
        return found

    def placed(storage: Any) -> int:
        return (gpu.ledger.address(storage) or 0) if fake(storage) else int(address(storage))

    kind.resize_, kind.data_ptr = resized, placed
    _install_data(gpu)


def _install_data(gpu: VirtualGpu) -> None:
    """``parameter.data = tensor`` may move it to the GPU: real and fake tensors, which cannot take each other's place, swap."""
    plain = torch._C.TensorBase.data

    def change(tensor: Any, value: Any) -> None:
        if isinstance(value, Fake) == isinstance(tensor, Fake):
            plain.__set__(tensor, value)
            return
        new = value.detach()
        if isinstance(tensor, torch.nn.Parameter):
            new = torch.nn.Parameter(new, tensor.requires_grad)
        elif tensor.requires_grad:
            new.requires_grad_()
        torch.utils.swap_tensors(tensor, new)

    torch.Tensor.data = property(plain.__get__, change)
