"""Collectives: a sweep over sizes with the bus bandwidth, results checked, and the links between neighbouring ranks."""

from __future__ import annotations

import time
from typing import Any

from preflight.investigate.probes.timed import Row, row, samples_of

TITLE = "all-reduce from 8 B to 256 MB, all-gather, broadcast, with bus bandwidth; ping-pong of neighbours"
TOGETHER = True
KINDS = ("all_gather", "broadcast")


def operations(settings: dict[str, Any]) -> list[str]:
    """Return what is measured: sizes in powers of 16 up to the largest, then other collectives, then links."""
    sizes, size = [], 8
    while size < settings["largest"]:
        sizes.append(size)
        size *= 16
    links = [f"link {distance}" for distance in ((1,) if settings["world"] > 1 else ())]
    middle = min(1 << 20, settings["largest"])
    return (
        [f"all_reduce {one}" for one in [*sizes, settings["largest"]]] + [f"{kind} {middle}" for kind in KINDS] + links
    )


def measure(operation: str, settings: dict[str, Any]) -> list[Row]:
    """Measure one of them, in a group that all ranks of this turn have joined."""
    from preflight.investigate.workers.group import join

    kind = join(
        tuple(settings["endpoint"]), settings["group"], settings["rank"], settings["world"], settings["backend"],
        settings["join_seconds"], settings.get("local_rank"),
    )  # fmt: skip
    name, _, size = operation.partition(" ")
    if name == "link":
        return _links(settings, kind)
    return _collective(name, int(size), settings, kind)


def _collective(name: str, size: int, settings: dict[str, Any], kind: str) -> list[Row]:
    import torch
    import torch.distributed as dist

    world, rank = settings["world"], settings["rank"]
    finish = torch.cuda.synchronize if kind == "cuda" else None
    count = max(size // 4, 1)
    data = torch.empty(count, device=kind)
    parts = [torch.empty(count, device=kind) for _ in range(world)] if name == "all_gather" else []
    delay = float(settings.get("delay", 0.0))

    def once() -> None:
        if delay:
            time.sleep(delay)
        if name == "all_reduce":
            dist.all_reduce(data)
        elif name == "all_gather":
            dist.all_gather(parts, data)
        else:
            dist.broadcast(data, src=0)

    data.fill_(float(rank + 1))
    once()
    wanted = {"all_reduce": world * (world + 1) / 2, "broadcast": 1.0}.get(name, float(rank + 1))
    wrong = int((data != wanted).sum())
    wrong += sum(int((part != float(other + 1)).sum()) for other, part in enumerate(parts))
    data.zero_()
    taken = samples_of(once, _bounded(settings, size), finish)
    # The convention of nccl-tests: bytes on each link, whatever the algorithm.
    factor = {"all_reduce": 2 * (world - 1) / world, "all_gather": float(world - 1), "broadcast": 1.0}[name]
    label = f"{name} {_size(size)}"
    bandwidth = [size * factor / one for one in taken]
    rows = [row(label, "s", "smaller", taken, bytes=size, wrong=wrong, together=True)]
    if world > 1:
        rows.append(row(f"{label} bus", "byte/s", "larger", bandwidth, bytes=size, together=True))
    return rows


def _bounded(settings: dict[str, Any], size: int) -> dict[str, Any]:
    """Return settings under which all ranks repeat equally often: a number alone decides, smaller for large sizes."""
    repeats = settings["repeats"] if size <= 1 << 22 else max(10, settings["repeats"] // 4)
    return {**settings, "repeats": repeats, "seconds": float("inf")}


def _links(settings: dict[str, Any], kind: str) -> list[Row]:
    """Ping-pong with the next rank and with the one before: even ranks begin with the next, odd ones with the one before."""
    import torch
    import torch.distributed as dist

    rank, world = settings["rank"], settings["world"]
    data = torch.zeros(min(settings["largest"], 1 << 16) // 4, device=kind)
    pairs = [(one, (one + 1) % world) for one in range(world)] if world > 2 else [(0, 1)]
    finish = torch.cuda.synchronize if kind == "cuda" else None
    rows = []
    for low, high in pairs:
        if rank in (low, high):
            peer = high if rank == low else low
            slow = sorted((low, high)) in [sorted(one) for one in settings.get("slow_links", ())]

            def once(first: bool = rank == low, peer: int = peer, slow: bool = slow) -> None:
                if slow:
                    time.sleep(float(settings["link_delay"]))
                if first:
                    dist.send(data, peer)
                    dist.recv(data, peer)
                else:
                    dist.recv(data, peer)
                    dist.send(data, peer)

            taken = samples_of(once, _bounded(settings, data.numel() * 4), finish)
            rows.append({**row(f"link {min(low, high)}-{max(low, high)}", "s", "smaller", taken), "peer": peer})
        dist.barrier()
    return rows


def _size(count: int) -> str:
    for unit, step in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= step:
            return f"{count / step:g} {unit}"
    return f"{count} B"
