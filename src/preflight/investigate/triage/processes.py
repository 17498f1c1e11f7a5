"""The processes of training jobs on this machine, from /proc: ranks by their variables, agents by their command."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

AGENTS = (
    "torch.distributed.run",
    "torchrun",
    "torch.distributed.launch",
    "accelerate launch",
    "deepspeed",
    "ft_launcher",
    "mpirun",
)
STATES = {
    "R": "running",
    "S": "waiting",
    "D": "waiting for a device or a file",
    "T": "stopped",
    "t": "stopped",
    "Z": "ended, not yet buried",
}


class JobProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process of a training job.

    Attributes:
        pid: Its number. parent: That of its parent.
        role: ``rank`` or ``agent``.
        rank: Its rank. world_size: How many ranks there are. run: The run's id.
        state: What it does, in words.
        seconds: Since when it is there. processor_seconds: What it has used.
        bytes: Memory that it holds.
        command: How it was started.
    """

    pid: int
    parent: int
    role: str
    rank: int | None = None
    world_size: int | None = None
    run: str | None = None
    state: str = ""
    seconds: float | None = None
    processor_seconds: float | None = None
    bytes: int | None = None
    command: str = ""


def job_processes(only: int | None = None) -> tuple[JobProcess, ...] | None:
    """Return what is there, agents first, then by rank; None where there is no /proc to look at.

    Args:
        only: A process; then it and its descendants alone are looked at.
    """
    if not os.path.isdir("/proc/self"):
        return None
    found = {one.pid: one for one in _all()}
    if only is not None:
        kept = {only}
        for _ in found:
            kept |= {pid for pid, one in found.items() if one.parent in kept}
        found = {pid: one for pid, one in found.items() if pid in kept}
    # A loader's worker has its parent's variables, and is no rank of its own.
    ranks = {pid: one for pid, one in found.items() if one.role == "rank"}
    real = [one for one in ranks.values() if one.parent not in ranks or ranks[one.parent].rank != one.rank]
    agents = [one for one in found.values() if one.role == "agent"]
    return (*sorted(agents, key=lambda one: one.pid), *sorted(real, key=lambda one: (one.run or "", one.rank or 0)))


def _all() -> Iterator[JobProcess]:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                one = _process(int(name))
            except (OSError, ValueError, IndexError):
                continue  # it has ended, or is somebody else's
            if one is not None:
                yield one


def _process(pid: int) -> JobProcess | None:
    command = _read(pid, "cmdline").replace("\0", " ").strip()
    agent = any(word in command for word in AGENTS) and "python" in command.split(" ", 1)[0]
    variables = dict(part.split("=", 1) for part in _read(pid, "environ").split("\0") if "=" in part)
    is_rank = variables.get("RANK", "").isdigit() and variables.get("WORLD_SIZE", "").isdigit()
    if not agent and not is_rank:
        return None
    fields = _read(pid, "stat").rpartition(")")[2].split()
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    with open("/proc/uptime", encoding="ascii") as file:
        up = float(file.read().split()[0])
    return JobProcess(
        pid=pid, parent=int(fields[1]), role="agent" if agent else "rank", command=command[:200],
        rank=None if agent else int(variables["RANK"]), world_size=None if agent else int(variables["WORLD_SIZE"]),
        run=variables.get("TORCHELASTIC_RUN_ID"), state=STATES.get(fields[0], fields[0]),
        seconds=round(up - int(fields[19]) / ticks, 1), processor_seconds=(int(fields[11]) + int(fields[12])) / ticks,
        bytes=int(fields[21]) * page,
    )  # fmt: skip


def _read(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()
