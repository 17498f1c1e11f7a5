"""``torch.cuda`` and the rest of PyTorch's Python side, as they would be on a machine with the chosen GPU."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import torch

from preflight.dryrun.virtual.device import Device
from preflight.dryrun.virtual.engine import streams


def install(gpu: Device, card: dict[str, Any]) -> None:
    """Replace the functions that would ask a driver.

    Args:
        gpu: The virtual GPU, or what takes its place.
        card: ``name``, ``memory_bytes``, ``capability`` (major, minor), ``multiprocessors`` of the GPU.
    """
    answers = {**_of_devices(gpu, card), **_of_memory(gpu, card), **_of_random_numbers(), **streams.answers()}
    _answer(torch.cuda, answers)
    for module in ("memory", "random", "streams"):
        _answer(getattr(torch.cuda, module, None), answers)
    _install_libraries(gpu)
    torch.Generator = _generator(torch.Generator)
    if hasattr(torch, "accelerator"):
        _install_accelerator(gpu)
    streams.install_graphs()


def _answer(holder: Any, answers: dict[str, Any]) -> None:
    """Put answers in the place of the functions that this release has."""
    for name, answer in answers.items():
        if hasattr(holder, name):
            setattr(holder, name, answer)


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _of_devices(gpu: Device, card: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of the devices themselves."""
    major, minor = card["capability"]
    properties = _properties(card)
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": _nothing,
        "_lazy_init": _nothing,
        "_lazy_call": lambda call, **_: None,
        "device_count": lambda: gpu.devices,
        "current_device": lambda: gpu.index,
        "set_device": lambda device: _use(gpu, device),
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "get_device_name": lambda device=None: card["name"],
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "is_bf16_supported": lambda including_emulation=True: including_emulation or major >= 8,
        "can_device_access_peer": lambda *_: True,
        "synchronize": lambda device=None: gpu.synchronise("torch.cuda.synchronize", 0),
        "ipc_collect": _nothing,
        "utilization": lambda device=None: 0,
    }


def _properties(card: dict[str, Any]) -> SimpleNamespace:
    major, minor = card["capability"]
    return SimpleNamespace(
        name=card["name"],
        major=major,
        minor=minor,
        total_memory=card["memory_bytes"],
        multi_processor_count=card.get("multiprocessors") or 108,
        is_integrated=False,
        is_multi_gpu_board=False,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=101376,
        gcnArchName="",
        uuid="GPU-virtual",
        L2_cache_size=50 << 20,
    )


def _of_memory(gpu: Device, card: dict[str, Any]) -> dict[str, Any]:
    """Return what the allocator says, all of it in bytes."""
    ledger, allocator = gpu.ledger, gpu.ledger.allocator

    def free_and_total(device: Any = None) -> tuple[int, int]:
        # The driver counts what lies beside PyTorch's tensors as taken: the context, and what libraries hold.
        room = card["memory_bytes"] if allocator.capacity is None else allocator.capacity
        return max(0, room - allocator.reserved), card["memory_bytes"]

    def allow(fraction: float, device: Any = None) -> None:
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        allocator.limit = int(fraction * card["memory_bytes"])

    def empty_cache() -> None:
        gpu.synchronise("torch.cuda.empty_cache", 0)
        allocator.empty_cache()

    def stats(device: Any = None) -> Counter[str]:
        return Counter(
            {
                "allocated_bytes.all.current": ledger.allocated,
                "allocated_bytes.all.peak": allocator.peak_allocated,
                "reserved_bytes.all.current": allocator.reserved,
                "reserved_bytes.all.peak": allocator.peak_reserved,
                "num_alloc_retries": allocator.retries,
                "num_ooms": 0,
            }
        )

    return {
        "empty_cache": empty_cache,
        "mem_get_info": free_and_total,
        "memory_allocated": lambda device=None: ledger.allocated,
        "max_memory_allocated": lambda device=None: allocator.peak_allocated,
        "memory_reserved": lambda device=None: allocator.reserved,
        "max_memory_reserved": lambda device=None: allocator.peak_reserved,
        "memory_cached": lambda device=None: allocator.reserved,
        "reset_peak_memory_stats": lambda device=None: allocator.reset_peaks(),
        "reset_max_memory_allocated": lambda device=None: allocator.reset_peaks(),
        "memory_stats": stats,
        "memory_stats_as_nested_dict": lambda device=None: {},
        "memory_summary": lambda *_, **__: "",
        "memory_snapshot": lambda *_, **__: [],
        "set_per_process_memory_fraction": allow,
    }


def _of_random_numbers() -> dict[str, Any]:
    """Return what the GPU's generators say: there is no number on it to draw."""
    return {
        "manual_seed": _nothing,
        "manual_seed_all": _nothing,
        "seed": _nothing,
        "seed_all": _nothing,
        "initial_seed": lambda: 0,
        "get_rng_state": lambda device="cuda": torch.zeros(16, dtype=torch.uint8),
        "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8)],
        "set_rng_state": _nothing,
        "set_rng_state_all": _nothing,
    }


def _install_libraries(gpu: Device) -> None:
    """Let the build be one for CUDA, with cuDNN and NCCL."""
    torch.backends.cuda.is_built = lambda: True
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: 91002
    torch.version.cuda = torch.version.cuda or "12.8"
    torch._C._cuda_getDeviceCount = lambda: gpu.devices
    torch.cuda.nccl.version = lambda: (2, 27, 3)
    torch.cuda.nccl.is_available = lambda tensors: True


def _use(gpu: Device, device: Any) -> None:
    """Call the GPU by the number that the script has chosen for this process."""
    number = device if isinstance(device, int) else torch.device(device).index
    if number is not None and 0 <= number < max(gpu.devices, 1):
        gpu.index = number


def _generator(real: Any) -> Any:
    class Generator(real):
        """A generator; one of the GPU is one of the host here."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, "cpu")

    return Generator


def _install_accelerator(gpu: Device) -> None:
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: gpu.devices,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: gpu.index,
        "current_device_idx": lambda: gpu.index,
        "set_device_index": lambda device: _use(gpu, device),
        "set_device_idx": lambda device: _use(gpu, device),
        "synchronize": lambda device=None: gpu.synchronise("torch.accelerator.synchronize", 0),
        "current_stream": lambda device=None: streams.Stream(),
        "empty_cache": gpu.ledger.allocator.empty_cache,
    }
    _answer(torch.accelerator, answers)
