"""``torch.cuda`` and the rest of PyTorch's Python side, as they would be on a machine with the chosen GPU."""

from __future__ import annotations

import contextlib
from collections import Counter
from types import SimpleNamespace
from typing import Any

import torch

from preflight.dryrun.virtual.engine.gpu import VirtualGpu


def install(gpu: VirtualGpu, card: dict[str, Any]) -> None:
    """Replace the functions that would ask a driver.

    Args:
        gpu: The virtual GPU.
        card: ``name``, ``memory_bytes``, ``capability`` (major, minor), ``multiprocessors`` of the GPU.
    """
    major, minor = card["capability"]
    properties = SimpleNamespace(
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
    allocator = gpu.ledger.allocator
    ledger = gpu.ledger

    def free_and_total(device: Any = None) -> tuple[int, int]:
        return card["memory_bytes"] - allocator.reserved, card["memory_bytes"]

    def empty_cache() -> None:
        gpu.synchronise("torch.cuda.empty_cache", 0)
        allocator.empty_cache()

    def synchronise(device: Any = None) -> None:
        gpu.synchronise("torch.cuda.synchronize", 0)

    def stats(device: Any = None) -> dict[str, int]:
        return {
            "allocated_bytes.all.current": ledger.allocated,
            "allocated_bytes.all.peak": allocator.peak_allocated,
            "reserved_bytes.all.current": allocator.reserved,
            "reserved_bytes.all.peak": allocator.peak_reserved,
            "num_alloc_retries": allocator.retries,
            "num_ooms": 0,
        }

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": nothing,
        "_lazy_init": nothing,
        "_lazy_call": lambda call, **_: None,
        "device_count": lambda: gpu.devices,
        "current_device": lambda: getattr(gpu, "index", 0),
        "set_device": lambda device: _use(gpu, device),
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "get_device_name": lambda device=None: card["name"],
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "is_bf16_supported": lambda including_emulation=True: including_emulation or major >= 8,
        "can_device_access_peer": lambda *_: True,
        "synchronize": synchronise,
        "empty_cache": empty_cache,
        "ipc_collect": nothing,
        "mem_get_info": free_and_total,
        "memory_allocated": lambda device=None: ledger.allocated,
        "max_memory_allocated": lambda device=None: allocator.peak_allocated,
        "memory_reserved": lambda device=None: allocator.reserved,
        "max_memory_reserved": lambda device=None: allocator.peak_reserved,
        "memory_cached": lambda device=None: allocator.reserved,
        "reset_peak_memory_stats": lambda device=None: allocator.reset_peaks(),
        "reset_max_memory_allocated": lambda device=None: allocator.reset_peaks(),
        "memory_stats": lambda device=None: Counter(stats()),
        "memory_stats_as_nested_dict": lambda device=None: {},
        "memory_summary": lambda *_, **__: "",
        "memory_snapshot": lambda *_, **__: [],
        "manual_seed": nothing,
        "manual_seed_all": nothing,
        "seed": nothing,
        "seed_all": nothing,
        "initial_seed": lambda: 0,
        "get_rng_state": lambda device="cuda": torch.zeros(16, dtype=torch.uint8),
        "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8)],
        "set_rng_state": nothing,
        "set_rng_state_all": nothing,
        "set_per_process_memory_fraction": nothing,
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "set_stream": nothing,
        "stream": lambda stream: contextlib.nullcontext(stream),
        "Stream": Stream,
        "Event": Event,
        "utilization": lambda device=None: 0,
        "is_current_stream_capturing": lambda: False,
    }
    for name, answer in answers.items():
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, answer)
    for module in ("memory", "random", "streams"):
        inner = getattr(torch.cuda, module, None)
        for name, answer in answers.items():
            if inner is not None and hasattr(inner, name):
                setattr(inner, name, answer)
    torch.cuda.nccl.version = lambda: (2, 29, 3)
    torch.backends.cuda.is_built = lambda: True
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: 91002
    torch.version.cuda = torch.version.cuda or "12.8"
    torch._C._cuda_getDeviceCount = lambda: gpu.devices
    torch.Generator = _generator(torch.Generator)
    if hasattr(torch, "accelerator"):
        _install_accelerator(gpu)
    _install_graphs()


def _use(gpu: VirtualGpu, device: Any) -> None:
    """Call the GPU by the number that the script has chosen for this process."""
    number = device if isinstance(device, int) else torch.device(device).index
    if number is not None and 0 <= number < max(gpu.devices, 1):
        gpu.index = number


class Stream:
    """A stream on which everything is already done."""

    device_index = 0
    device_type = 1
    stream_id = 0
    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave."""

    def query(self) -> bool:
        """Whether all work is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being recorded."""
        return False

    def record_event(self, event: Any = None) -> Any:
        """Return an event."""
        return event or Event()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    wait_event = wait_stream = lambda self, other: None


class Event:
    """An event that has happened."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what a real event takes."""

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def query(self) -> bool:
        """Whether it has happened."""
        return True

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds to another event; one, because no clock runs on the virtual GPU."""
        return 1.0

    wait = synchronize = lambda self, stream=None: None


def _generator(real: Any) -> Any:
    class Generator(real):
        """A generator; one of the GPU is one of the host here."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, "cpu")

    return Generator


def _install_accelerator(gpu: VirtualGpu) -> None:
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: gpu.devices,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: getattr(gpu, "index", 0),
        "current_device_idx": lambda: getattr(gpu, "index", 0),
        "set_device_index": lambda device: _use(gpu, device),
        "set_device_idx": lambda device: _use(gpu, device),
        "synchronize": lambda device=None: gpu.synchronise("torch.accelerator.synchronize", 0),
        "current_stream": lambda device=None: Stream(),
        "empty_cache": gpu.ledger.allocator.empty_cache,
    }
    for name, answer in answers.items():
        if hasattr(torch.accelerator, name):
            setattr(torch.accelerator, name, answer)


class Graph:
    """A CUDA graph: what is recorded has run once, and a replay takes no memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what a real graph takes."""

    def replay(self) -> None:
        """Nothing to run again."""

    reset = capture_end = enable_debug_mode = debug_dump = lambda self, *_: None

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to record."""

    def pool(self) -> tuple[int, int]:
        """Return a name of its memory."""
        return (0, id(self))


def _install_graphs() -> None:
    """Let CUDA graphs, ranges of NVTX and the profiler's switches pass."""
    nvtx = getattr(torch.cuda, "nvtx", None)
    if nvtx is not None:
        for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
            setattr(nvtx, name, lambda *_, **__: 0)
        nvtx.range = lambda *_, **__: contextlib.nullcontext()
    holders = [
        torch.cuda,
        *filter(None, (getattr(torch.cuda, name, None) for name in ("graphs", "profiler", "memory"))),
    ]
    answers: dict[str, Any] = {
        "CUDAGraph": Graph,
        "graph": lambda cuda_graph=None, *_, **__: contextlib.nullcontext(),
        "make_graphed_callables": lambda callables, *_, **__: callables,
        "graph_pool_handle": lambda: (0, 0),
        "start": lambda: None,
        "stop": lambda: None,
        "profile": lambda *_, **__: contextlib.nullcontext(),
        "cudart": lambda: SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0),
        "_record_memory_history": lambda *_, **__: None,
        "_dump_snapshot": lambda *_, **__: None,
        "_snapshot": lambda *_, **__: {"segments": [], "device_traces": []},
        "device": lambda device: contextlib.nullcontext(),
        "device_of": lambda tensor: contextlib.nullcontext(),
    }
    for holder in holders:
        for name, answer in answers.items():
            if holder is torch.cuda and name in ("start", "stop", "profile"):
                continue
            if hasattr(holder, name) and callable(getattr(holder, name)):
                setattr(holder, name, answer)
    nccl = getattr(torch.cuda, "nccl", None)
    if nccl is not None:
        nccl.version = lambda: (2, 27, 3)
        nccl.is_available = lambda tensors: True
