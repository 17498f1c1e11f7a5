"""The ranks of a job on this node, found by the variables that their launcher gave them."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_LOCAL = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
_JOB = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID")
# Of /proc/PID/stat; what the letter says of a process that others wait for.
STATES = {
    "T": "stopped by a signal",
    "t": "held by a debugger",
    "Z": "ended and not yet taken note of",
    "X": "ended",
    "D": "waiting in the kernel",
}


class RankProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The process of a rank.

    Attributes:
        pid: Its number.
        rank: Global rank; None where no launcher numbered it.
        local_rank: On this node.
        world_size: Of the job.
        local_world_size: Ranks of the job on this node, where the launcher says so.
        job: What tells the job from others: address and port of its store, its number.
        command: Its command line.
        state: Letter of the kernel: R, S, D, T, Z.
        seconds: Processor time that it has used.
        waits_in: Function of the kernel in which it waits.
        variables: Those that tell where its recorder writes.
    """

    pid: int
    rank: int | None
    local_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    job: str = ""
    command: str = ""
    state: str = ""
    seconds: float = 0.0
    waits_in: str = ""
    variables: dict[str, str] = {}


def find_ranks(pids: Sequence[int] = (), *, root: str = "/proc") -> tuple[RankProcess, ...]:
    """Return the ranks on this node; with ``pids`` those processes and the ranks that they started.

    What a rank starts (workers of a loader) inherits its variables: of the processes that bear the same rank the outermost one
    that runs Python counts.
    """
    parents: dict[int, int] = {}
    variables: dict[int, dict[str, str]] = {}
    for name in os.listdir(root):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        pid = int(name)
        stat = _stat(root, pid)
        if stat is None:
            continue
        parents[pid] = stat[1]
        found = _environment(root, pid)
        if found is not None and (_number(found, _RANK) is not None or pid in pids):
            variables[pid] = found
    wanted = [pid for pid in variables if not pids or pid in pids or _ancestors(pid, parents) & set(pids)]
    chosen = _outermost(wanted, variables, parents, root)
    if pids:
        chosen = [pid for pid in chosen if _number(variables[pid], _RANK) is not None] or chosen
    ranks = [_process(root, pid, variables[pid]) for pid in chosen]
    return tuple(sorted(ranks, key=lambda one: (one.job, one.rank if one.rank is not None else -1, one.pid)))


def jobs_of(ranks: Sequence[RankProcess]) -> dict[str, tuple[RankProcess, ...]]:
    """Return the ranks by job, the largest first."""
    jobs: dict[str, list[RankProcess]] = {}
    for rank in ranks:
        jobs.setdefault(rank.job, []).append(rank)
    return {job: tuple(found) for job, found in sorted(jobs.items(), key=lambda item: -len(item[1]))}


def refreshed(process: RankProcess, *, root: str = "/proc") -> RankProcess:
    """Return a process as it is now; state ``X`` where it is gone."""
    stat = _stat(root, process.pid)
    if stat is None:
        return msgspec.structs.replace(process, state="X")
    waits = _read(root, process.pid, "wchan").decode("utf-8", "replace").strip("\0\n")
    return msgspec.structs.replace(process, state=stat[0], seconds=stat[2], waits_in="" if waits == "0" else waits)


def _process(root: str, pid: int, variables: dict[str, str]) -> RankProcess:
    command = _read(root, pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    kept = {
        name: value
        for name, value in variables.items()
        if name.startswith(("TORCH_FR", "TORCH_NCCL_DEBUG_INFO", "TORCH_WORKER_SERVER", "TORCH_NCCL_TRACE"))
    }
    process = RankProcess(
        pid=pid,
        rank=_number(variables, _RANK),
        local_rank=_number(variables, _LOCAL),
        world_size=_number(variables, _WORLD),
        local_world_size=_number(variables, ("LOCAL_WORLD_SIZE",)),
        job=" ".join(variables[name] for name in _JOB if variables.get(name)),
        command=command[:300],
        variables=kept,
    )
    return refreshed(process, root=root)


def _outermost(
    pids: Sequence[int], variables: dict[int, dict[str, str]], parents: dict[int, int], root: str
) -> list[int]:
    groups: dict[tuple[object, ...], list[int]] = {}
    for pid in pids:
        found = variables[pid]
        rank = _number(found, _RANK)
        key: tuple[object, ...] = (pid,) if rank is None else (rank, *(found.get(name) for name in _JOB))
        groups.setdefault(key, []).append(pid)
    chosen = []
    for members in groups.values():
        python = [pid for pid in members if _is_python(root, pid)] or members
        inside = set(python)
        chosen += [pid for pid in python if not _ancestors(pid, parents) & inside]
    return chosen


def _is_python(root: str, pid: int) -> bool:
    try:
        name = os.path.basename(os.readlink(f"{root}/{pid}/exe"))
    except OSError:
        name = _read(root, pid, "comm").decode("utf-8", "replace").strip()
    return name.startswith(("python", "pypy"))


def _ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    while pid in parents and parents[pid] not in found and parents[pid] > 0:
        pid = parents[pid]
        found.add(pid)
    return found


def _number(variables: dict[str, str], names: Sequence[str]) -> int | None:
    for name in names:
        value = variables.get(name, "")
        if value.isdigit() and len(value) < 10:
            return int(value)
    return None


def _stat(root: str, pid: int) -> tuple[str, int, float] | None:
    """Return state, parent and processor seconds; the name in parentheses may hold anything."""
    text = _read(root, pid, "stat").decode("utf-8", "replace")
    rest = text.rpartition(")")[2].split()
    if len(rest) < 13:
        return None
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    return rest[0], int(rest[1]), (int(rest[11]) + int(rest[12])) / ticks


def _environment(root: str, pid: int) -> dict[str, str] | None:
    content = _read(root, pid, "environ")
    if not content:
        return None
    pairs = (part.partition(b"=") for part in content.split(b"\0"))
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs if name}


def _read(root: str, pid: int, name: str) -> bytes:
    try:
        with open(f"{root}/{pid}/{name}", "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""
