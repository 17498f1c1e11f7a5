"""What a person says about a check: the options, and the device and the launch line that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from preflight.source.launcher import Launch
from preflight.vocabulary.hardware import Gpu

if TYPE_CHECKING:
    from preflight.check.against_job import JobGiven
    from preflight.check.against_plan import PlanGiven


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a person may say about a check.

    Attributes:
        gpu: A GPU, in any spelling.
        gpu_memory: The size of the card as sold, GB.
        gpus: Number of GPUs.
        launch: The launch line.
        arguments: The script's own command line.
        catalog: Folders of the user's own catalog.
        root: The repository's root; found from the script when None.
        dry_run: Whether to run the script on the virtual GPU.
        steps: Optimizer steps of a dry run.
        batch: What a batch holds where a dry run misses the data, as in ``x: float32[8,3], y: int64[8]``.
        assume: Configurations for a dry run, ``MODEL=CONFIG`` each.
        python: The interpreter of a dry run; None is the one that runs Preflight.
        probe: Whether a dry run is followed by a short one with real numbers on the CPU.
        time_limit: Seconds after which a dry run is ended.
        memory_snapshot: File for a snapshot that PyTorch's memory visualiser opens.
        chrome_trace: File for the estimated timeline of a step, in Chrome's format.
        expectations: File for what the dry run saw, as invariants of a real run.
        what_fits: Whether to run again with changes; None does it where the GPU is full.
        plan: The plan that the script is held against. What is not said of GPUs is taken from it.
        job: The job script that starts it.
    """

    gpu: str | None = None
    gpu_memory: float | None = None
    gpus: int | None = None
    launch: str | None = None
    arguments: tuple[str, ...] | None = None
    catalog: tuple[str, ...] = ()
    root: str | None = None
    dry_run: bool = False
    steps: int = 3
    batch: str | None = None
    assume: tuple[str, ...] = ()
    python: str | None = None
    probe: bool = True
    time_limit: float = 300.0
    memory_snapshot: str | None = None
    chrome_trace: str | None = None
    expectations: str | None = None
    what_fits: bool | None = None
    plan: PlanGiven | None = None
    job: JobGiven | None = None


class Device(msgspec.Struct, frozen=True):
    """The device that a run is meant for."""

    gpu: Gpu | None
    capacity_bytes: int | None
    title: str | None


def device_of(options: Options) -> Device:
    """Resolve the GPU and the memory that were named.

    Raises:
        UsageError: The GPU is not known, or the memory is not a positive number.
    """
    if options.gpu is None and options.gpu_memory is None:
        return Device(None, None, None) if options.plan is None else _planned_device(options.plan, options)
    from preflight.catalog import hardware
    from preflight.errors import UsageError

    extra = options.catalog
    gpu = hardware.resolve_gpu(options.gpu, extra) if options.gpu is not None else None
    if options.gpu_memory is not None:
        if not options.gpu_memory > 0 or options.gpu_memory > 100_000:
            raise UsageError(
                f"--gpu-memory {options.gpu_memory:g} is not a size of a GPU",
                "give it in GB, as the card is sold: 24, 80, 192",
            )
        capacity = hardware.gpu_from_memory(options.gpu_memory, extra)
        size = f"{options.gpu_memory:g} GB"
        return Device(gpu, capacity, f"{gpu.title} with {size}" if gpu is not None else f"a GPU of {size}")
    assert gpu is not None
    return Device(gpu, gpu.memory_bytes, gpu.title)


def _planned_device(given: PlanGiven, options: Options) -> Device:
    from preflight.catalog.hardware import resolve_gpu

    gpu = resolve_gpu(given.gpu, options.catalog) if given.gpu is not None else None
    return Device(gpu, given.capacity_bytes, gpu.title if gpu is not None else given.device)


def launch_of(options: Options) -> Launch:
    """Read the launch line and the configuration that it names.

    Raises:
        InputError: The configuration cannot be read.
        UsageError: The line is wrong, or contradicts the number of GPUs that was given.
    """
    if not options.launch:
        return Launch()
    from preflight.errors import UsageError
    from preflight.source.launch_config import with_config
    from preflight.source.launcher import parse_launch

    launch = with_config(parse_launch(options.launch))
    size = launch.world_size
    if size is not None and options.gpus is not None and size != options.gpus:
        raise UsageError(
            f"the launch line starts {size} {'process' if size == 1 else 'processes'}, but --gpus says {options.gpus}",
            "one process has one GPU: leave --gpus out, or say the same",
        )
    return launch
