"""Watches calls that settle how a run goes: seeds, epochs told to samplers, recomputed stretches."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from preflight.dryrun.virtual.watch.observations import Observations


def install(seen: Observations) -> None:
    """Watch from now on."""
    _watch_seeds(seen)
    _watch_samplers(seen)
    _watch_checkpoints(seen)


def _watch_seeds(seen: Observations) -> None:
    def watch(holder: Any, name: str, shown: str) -> None:
        plain = getattr(holder, name, None)
        if plain is None:
            return

        def seeded(*args: Any, **kwargs: Any) -> Any:
            value = args[0] if args else kwargs.get("seed", kwargs.get("a"))
            if isinstance(value, int):  # without a number the state comes from the clock
                seen.note("seed", function=shown)
            return plain(*args, **kwargs)

        setattr(holder, name, seeded)

    watch(torch, "manual_seed", "torch.manual_seed")
    watch(random, "seed", "random.seed")
    if "numpy" in sys.modules:  # torch imports it where it is there
        watch(sys.modules["numpy"].random, "seed", "numpy.random.seed")


def _watch_samplers(seen: Observations) -> None:
    from torch.utils.data.distributed import DistributedSampler

    plain = DistributedSampler.set_epoch

    def told(sampler: Any, epoch: int) -> None:
        seen.note("set_epoch", epoch=int(epoch))
        plain(sampler, epoch)

    DistributedSampler.set_epoch = told


def _watch_checkpoints(seen: Observations) -> None:
    from torch.utils import checkpoint as room

    plain = room.checkpoint

    def recomputed(function: Any, *args: Any, **kwargs: Any) -> Any:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        if torch.is_grad_enabled():
            reentrant = kwargs.get("use_reentrant")
            seen.note(
                "recompute", reentrant=reentrant is None or bool(reentrant),
                gradient=any(tensor.requires_grad for tensor in given),
            )  # fmt: skip
        return plain(function, *args, **kwargs)

    room.checkpoint = recomputed
