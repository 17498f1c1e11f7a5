"""Data loading, alone: how long a batch takes to come when nobody computes."""

from __future__ import annotations

import time
from typing import Any

from preflight.investigate.probes.timed import Row, row

TITLE = "time per batch of a data loader: one's own (--loader FILE.py:FUNCTION), files of a folder, or a synthetic one"
TOGETHER = False


def operations(settings: dict[str, Any]) -> list[str]:
    """Return what is measured: the loader as it is, and, for files, without workers to compare."""
    return ["batches"]


def measure(operation: str, settings: dict[str, Any]) -> list[Row]:
    """Take batches, the first ones apart: they wait for the workers to start."""
    loader, workers = _loader(settings)
    batches = iter(loader)
    began = time.perf_counter()
    taken: list[float] = []
    first = None
    for _ in range(settings["warm_up"] + settings["repeats"]):
        at = time.perf_counter()
        try:
            next(batches)
        except StopIteration:
            break
        passed = time.perf_counter() - at
        first = passed if first is None else first
        taken.append(passed)
        if time.perf_counter() - began > settings["seconds"] and len(taken) > settings["warm_up"] + 10:
            break
    kept = taken[settings["warm_up"] :] or taken
    if not kept:
        raise ValueError("the loader gave no batch")
    return [row("batch", "s", "smaller", kept, workers=workers, first_seconds=first, batches=len(taken))]


def _loader(settings: dict[str, Any]) -> tuple[Any, int]:
    given = settings.get("loader")
    if given:
        import importlib.util

        path, _, name = given.rpartition(":")
        spec = importlib.util.spec_from_file_location("probed_loader", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{given}: a loader is FILE.py:FUNCTION")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = getattr(module, name)()
        return made, int(getattr(made, "num_workers", 0))
    return _own(settings), int(settings.get("workers", 0))


def _own(settings: dict[str, Any]) -> Any:
    """A loader of this probe's own: the files of a folder, read whole, or numbers that are drawn."""
    import os
    import random

    from torch.utils.data import DataLoader

    delay = float(settings.get("delay", 0.0))
    paths: list[str] = []
    if settings.get("folder"):
        for folder, _, names in os.walk(settings["folder"]):
            paths += [os.path.join(folder, name) for name in names]
        random.Random(settings["rank"]).shuffle(paths)
        if not paths:
            raise ValueError(f"no file in {settings['folder']}")
    samples = Samples(paths, delay, (settings["warm_up"] + settings["repeats"]) * settings.get("batch", 8))
    return DataLoader(samples, batch_size=settings.get("batch", 8), num_workers=int(settings.get("workers", 0)))


class Samples:
    """Files by number, or, without files, vectors that are drawn."""

    def __init__(self, paths: list[str], delay: float, count: int) -> None:
        self.paths, self.delay, self.count = paths, delay, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        import torch

        if self.delay:
            time.sleep(self.delay)
        if self.paths:
            with open(self.paths[index % len(self.paths)], "rb") as file:
                return len(file.read())
        return torch.randn(1024, generator=torch.Generator().manual_seed(index))
