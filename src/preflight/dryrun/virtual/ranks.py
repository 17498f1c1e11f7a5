"""One rank of many: the process group exists, and the other ranks are imagined."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from preflight.dryrun.virtual import collectives, private, replicas
from preflight.dryrun.virtual.gpu import VirtualGpu


def install(gpu: VirtualGpu) -> None:
    """Let ``torch.distributed`` start with any back end at any size, with nobody at the other end."""
    if not torch.distributed.is_available():
        return
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    asked: dict[str, str] = {}
    start, make_group = c10d.init_process_group, c10d.new_group

    def begin(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        names = ("init_method", "timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id")
        given = dict(zip(names, args, strict=False)) | kwargs
        size, rank = _number(given.get("world_size"), "WORLD_SIZE"), _number(given.get("rank"), "RANK")
        if size is None or rank is None:
            start(backend, *args, **kwargs)  # raises what it raises where nobody says who takes part
            return
        asked["backend"] = str(backend or "nccl").lower()
        store = private.prepare_fake_group()
        private.watch_sharding(gpu.imagine)
        start("fake", store=store, rank=rank, world_size=size)

    def grouped(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        return make_group(ranks, backend="fake")

    answers = {
        "init_process_group": begin,
        "new_group": grouped,
        "get_backend": lambda group=None: asked.get("backend", "nccl"),
        "is_nccl_available": lambda: True,
        "all_gather_object": _gather_objects,
        "gather_object": lambda obj, object_gather_list=None, *_, **__: _gather_objects(object_gather_list, obj),
        "broadcast_object_list": lambda object_list, *_, **__: None,
        "scatter_object_list": _scatter_objects,
        "monitored_barrier": lambda *_, **__: None,
    }
    for name, answer in answers.items():
        if name == "get_backend":
            dist.get_backend = answer  # PyTorch itself has to see what the group really is
        else:
            _replace(getattr(c10d, name), answer)
    private.show_accelerator_as_cuda()
    collectives.install()
    replicas.install(gpu)
    _install_spawn()


def _replace(function: Any, answer: Any) -> None:
    """Put another function in the place of one wherever PyTorch's modules have taken it to."""
    name = function.__name__
    for module in [module for path, module in sys.modules.items() if path.startswith("torch.")]:
        if module.__dict__.get(name) is function:
            setattr(module, name, answer)


def _number(given: Any, variable: str) -> int | None:
    if isinstance(given, int) and given >= 0:
        return given
    told = os.environ.get(variable, "")
    return int(told) if told.isdigit() else None


def _gather_objects(found: Any, thing: Any, *args: Any, **kwargs: Any) -> None:
    if found is not None:
        found[:] = [thing] * len(found)


def _scatter_objects(output: Any, given: Any = None, *args: Any, **kwargs: Any) -> None:
    output[0] = given[0] if given else None


def _install_spawn() -> None:
    """``torch.multiprocessing.spawn`` runs the first process here, and the others not at all."""
    import torch.multiprocessing as processes

    def spawn(fn: Any, args: Any = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        fn(0, *args)

    processes.spawn = spawn
    processes.spawn.start_processes = spawn
    processes.start_processes = spawn
