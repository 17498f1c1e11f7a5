"""The machine: kernel, processors, memory, limits, NUMA."""

from __future__ import annotations

import os
import platform

from preflight.investigate.doctor.wanted import Wanted
from preflight.vocabulary.finding import Scalar

LIMITS = ("nofile", "nproc", "memlock", "stack", "core", "as", "fsize", "rss")


def collect(wanted: Wanted) -> dict[str, Scalar]:
    """Return what the kernel says of the machine and of what this process may take."""
    found: dict[str, Scalar] = {
        "host.name": platform.node(), "host.kernel": platform.release(), "host.system": _system(),
        "host.processor": _processor() or platform.processor() or platform.machine(), "host.processors": os.cpu_count(),
        "host.libc": " ".join(platform.libc_ver()).strip() or None,
    }  # fmt: skip
    if hasattr(os, "sched_getaffinity"):
        found["host.processors_allowed"] = len(os.sched_getaffinity(0))
    memory = _memory()
    found.update({f"memory.{key}": memory.get(name) for key, name in (
        ("total_bytes", "MemTotal"), ("available_bytes", "MemAvailable"), ("swap_total_bytes", "SwapTotal"))})  # fmt: skip
    found["memory.group_limit_bytes"] = group_limit()
    found["host.numa_nodes"] = _count("/sys/devices/system/node", "node")
    found["host.governor"] = _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    found["host.huge_pages"] = _chosen(_first_line("/sys/kernel/mm/transparent_hugepage/enabled"))
    return {**{key: value for key, value in found.items() if value is not None}, **_limits()}


def _limits() -> dict[str, Scalar]:
    try:
        import resource
    except ImportError:
        return {}
    found: dict[str, Scalar] = {}
    for name in LIMITS:
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is not None:
            soft, _ = resource.getrlimit(number)
            found[f"limit.{name}"] = "unlimited" if soft == resource.RLIM_INFINITY else soft
    return found


def _memory() -> dict[str, int]:
    """Return /proc/meminfo in bytes."""
    found = {}
    for line in _lines("/proc/meminfo"):
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
    return found


def group_limit() -> int | None:
    """Return how much memory the control group of this process may take; None where it is not limited."""
    for line in _lines("/proc/self/cgroup"):
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        places = [f"/sys/fs/cgroup{path}/memory.max", "/sys/fs/cgroup/memory.max"] if number == "0" else []
        if "memory" in controllers.split(","):
            places = [
                f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ]
        for place in places:
            said = _first_line(place)
            if said and said.isdigit():
                return int(said) if int(said) < 1 << 60 else None
    return None


def _processor() -> str | None:
    return next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), None
    )


def _system() -> str:
    for line in _lines("/etc/os-release"):
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip().strip('"')
    return platform.system()


def _chosen(said: str | None) -> str | None:
    """Return the word in brackets: ``always [madvise] never``."""
    return said.partition("[")[2].partition("]")[0] or said if said else None


def _count(folder: str, begins: str) -> int | None:
    try:
        return sum(name.startswith(begins) and name[len(begins) :].isdigit() for name in os.listdir(folder))
    except OSError:
        return None


def _first_line(path: str) -> str | None:
    return next(iter(_lines(path)), None)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
