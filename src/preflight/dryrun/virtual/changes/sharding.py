"""FSDP2 (``fully_shard``) over the repeated blocks, seen from one rank of many."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import torch

from preflight.dryrun.virtual.changes.recompute import repeated

if TYPE_CHECKING:
    from preflight.dryrun.virtual.changes import Change, Run


def install(change: Change, run: Run) -> None:
    """Shard a model over ``ranks`` as its optimizer is made: the optimizer then holds the shares."""
    ranks = int(change.options["ranks"])
    begin = torch.optim.Optimizer.__init__
    sharded: dict[int, tuple[Any, Any]] = {}  # a weak reference to the parameter that was, and the one that is

    def made(optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
        groups = [dict(g) if isinstance(g, dict) else g for g in params]
        flat = [p for g in groups for p in (g["params"] if isinstance(g, dict) else [g])]
        flat = [p[1] if isinstance(p, tuple) else p for p in flat if not isinstance(p, str)]
        _shard(change, ranks, flat, sharded)

        del flat
        groups = _now(groups, sharded)

        begin(optimizer, groups, defaults)

    torch.optim.Optimizer.__init__ = made


def _now(groups: list[Any], sharded: dict[int, tuple[Any, Any]]) -> list[Any]:
    """Return the groups of an optimizer with the parameters that there are now."""

    def one(parameter: Any) -> Any:
        parameter = parameter[1] if isinstance(parameter, tuple) else parameter
        was, now = sharded.get(id(parameter), (None, None))
        return now if was is not None and was() is parameter else parameter

    def several(params: Any) -> list[Any]:
        return [one(p) for p in ([params] if isinstance(params, torch.Tensor) else params)]

    return [{**g, "params": several(g["params"])} if isinstance(g, dict) else one(g) for g in groups]


def _shard(change: Change, ranks: int, wanted: list[Any], sharded: dict[int, tuple[Any, Any]]) -> None:
    from torch.distributed.fsdp import fully_shard

    ids = {id(p) for p in wanted if not hasattr(p, "_local_tensor")}
    roots = _roots(ids)
    if not roots:
        return
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl", rank=0, world_size=ranks)
    for root in roots:
        name = type(root).__name__
        # Nobody may hold on to the old ones: the memory of a rank is that of its share.
        before = {path: weakref.ref(p) for path, p in root.named_parameters(remove_duplicate=False)}
        numbers = {path: id(p()) for path, p in before.items()}
        blocks = [block for _, block in repeated(root)]
        for block in blocks:
            fully_shard(block)
        fully_shard(root)
        for path, parameter in root.named_parameters(remove_duplicate=False):
            sharded[numbers[path]] = (before[path], parameter)
        change.did(f"{name} over {ranks} ranks, blocks of their own", max(1, len(blocks)))


def _roots(ids: set[int]) -> list[Any]:
    """Return the outermost modules whose parameters an optimizer is given."""
    modules = [thing for thing in gc.get_objects() if isinstance(thing, torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    tops = [module for module in modules if id(module) not in inner]
    return [top for top in tops if any(id(p) in ids for p in top.parameters())]
