"""Process groups of the moment, met in a store under a name of their own: one that failed does not spoil the next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

_now: dict[str, Any] = {}


def join(
    endpoint: tuple[str, int], name: str, rank: int, world: int, backend: str, seconds: float, device: int | None = None
) -> str:  # fmt: skip
    """Be in the group of this name, alone; return the kind of device that its tensors lie on."""
    import torch
    import torch.distributed as dist

    kind = "cuda" if backend == "nccl" else "cpu"
    if _now.get("name") == name:
        return kind
    leave()
    if kind == "cuda":
        torch.cuda.set_device(device or 0)
    else:
        torch.set_num_threads(1)
    wait = timedelta(seconds=seconds)
    store = _now.get("store")
    if store is None:
        store = dist.TCPStore(endpoint[0], endpoint[1], is_master=False, timeout=wait, wait_for_workers=False)
    dist.init_process_group(backend, store=dist.PrefixStore(name, store), rank=rank, world_size=world, timeout=wait)
    _now.update(name=name, store=store)
    return kind


def leave() -> None:
    """Be in no group."""
    import torch.distributed as dist

    if _now.pop("name", None) is not None and dist.is_initialized():
        dist.destroy_process_group()


def keep(host: str = "127.0.0.1") -> int:
    """Keep a store in this process and return its port."""
    import torch.distributed as dist

    _now["kept"] = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
    return int(_now["kept"].port)


def devices() -> int:
    """Return how many cards torch sees here; imports torch, so that what follows is not timed with it."""
    import torch

    return int(torch.cuda.device_count())
