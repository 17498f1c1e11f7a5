"""Streams, events, CUDA graphs and marks of a profiler, as they are where every kernel has ended at once."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import torch


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


def answers() -> dict[str, Any]:
    """Return what ``torch.cuda`` says of streams, by name."""
    return {
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "set_stream": lambda stream: None,
        "stream": lambda stream: contextlib.nullcontext(stream),
        "Stream": Stream,
        "Event": Event,
        "is_current_stream_capturing": lambda: False,
    }


def install_graphs() -> None:
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
