"""One rank of many: the process group exists, and the other ranks are imagined."""

from __future__ import annotations

import os
from typing import Any

import torch

from preflight.dryrun.virtual import private, private_groups
from preflight.dryrun.virtual.distributed import collectives, pipelines, replicas
from preflight.dryrun.virtual.engine.gpu import VirtualGpu
from preflight.dryrun.virtual.replacing import replace_everywhere


def install(gpu: VirtualGpu, messages: dict[str, str]) -> None:
    """Let ``torch.distributed`` start with any back end at any size, with nobody at the other end.

    Args:
        gpu: The virtual GPU.
        messages: What stages of a pipeline on ranks that were run before have sent.
    """
    if not torch.distributed.is_available():
        return
    local = os.environ.get("LOCAL_RANK", "")
    gpu.index = int(local) if local.isdigit() and int(local) < gpu.devices else 0
    _install_groups(gpu)
    _install_objects(gpu)
    private.show_accelerator_as_cuda()
    collectives.install()
    replicas.install(gpu)
    _install_spawn(gpu)
    gpu.traffic.mail = pipelines.Mail(messages)
    pipelines.install(gpu.traffic, gpu.traffic.mail)


def _install_groups(gpu: VirtualGpu) -> None:
    """Let process groups be made that have nobody at the other end, and say that they are what the script asked for."""
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
        asked["backend"] = gpu.traffic.backend = str(backend or "nccl").lower()
        gpu.traffic.rank = (rank, size)
        store = private_groups.prepare_fake_group()
        private_groups.watch_sharding(gpu.imagine)
        private_groups.leave_flat_parameters_on_gpu()
        start("fake", store=store, rank=rank, world_size=size)
        gpu.seen.note("process group", ranks=size)

    replace_everywhere(start, begin)
    replace_everywhere(make_group, lambda ranks=None, *args, **kwargs: make_group(ranks, backend="fake"))
    replace_everywhere(c10d.is_nccl_available, lambda: True)
    dist.get_backend = lambda group=None: asked.get("backend", "nccl")  # PyTorch itself has to see what it really is


def _install_objects(gpu: VirtualGpu) -> None:
    """Let collectives of Python objects give what every rank would have sent had it been this one."""
    from torch.distributed import distributed_c10d as c10d

    def noted(name: str, answer: Any, at: int) -> None:
        """Note a collective, whose group is an argument of that name or at that place."""

        def called(*args: Any, **kwargs: Any) -> Any:
            group = kwargs.get("group", args[at] if len(args) > at else None)
            gpu.traffic.note(name, 0, group, on_gpu=False)
            return answer(*args, **kwargs)

        replace_everywhere(getattr(c10d, name), called)

    noted("all_gather_object", _gather_objects, 2)
    noted("gather_object", lambda obj, found=None, *_, **k: _gather_objects(k.get("object_gather_list", found), obj), 3)
    noted("broadcast_object_list", lambda *_, **__: None, 2)
    noted("scatter_object_list", _scatter_objects, 3)
    noted("monitored_barrier", lambda *_, **__: None, 0)


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


def _install_spawn(gpu: VirtualGpu | None = None) -> None:
    """``torch.multiprocessing.spawn`` runs the process of this rank here, and the others not at all."""
    import torch.multiprocessing as processes

    def spawn(fn: Any, args: Any = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        rank = 0
        if gpu is not None:
            rank = gpu.rank % max(1, nprocs)
            gpu.index = rank % max(1, gpu.devices)
        fn(rank, *args)

    processes.spawn = spawn
    processes.spawn.start_processes = spawn
    processes.start_processes = spawn
