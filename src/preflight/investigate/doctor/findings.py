"""What a snapshot, or the difference of many, comes to: findings."""

from __future__ import annotations

from collections.abc import Mapping

from preflight.catalog.known_variables import UnknownVariable, unknown
from preflight.investigate.doctor.snapshot import Snapshot
from preflight.vocabulary.finding import Evidence, Finding, Fix, Location, Severity
from preflight.vocabulary.live import Difference
from preflight.vocabulary.quantity import GIB, format_bytes

CODES = {
    "doctor.variable": "DOC101", "doctor.checkpoints": "DOC102", "doctor.shm": "DOC103", "doctor.limits": "DOC104",
    "doctor.torch": "DOC105", "doctor.gpu": "DOC106", "doctor.network": "DOC107", "doctor.difference": "DOC201",
}  # fmt: skip
LITTLE_SHM = 1 * GIB
"""Less room than this in /dev/shm and loaders with workers, or NCCL between ranks of a node, run out of it: a container's
default of 64 MiB is the usual case."""
FEW_FILES = 4096
"""Fewer open files than this and a loader with many workers, or a store with many ranks, runs out of them."""


def of_snapshot(snapshot: Snapshot) -> list[Finding]:
    """Return what is wrong on one rank, whatever the others have."""
    values = snapshot.values
    where = Location(rank=snapshot.rank, node=snapshot.node)
    found = [_variable(one, where) for one in unknown_variables(snapshot)]

    def say(rule: str, severity: Severity, message: str, what: str, instruction: str | None = None) -> None:
        evidence = (Evidence(what=what, value=values.get(what), source="measured"),)
        fix = Fix(title=instruction) if instruction else None
        found.append(Finding(rule, CODES[rule], severity, "certain", message, where, evidence=evidence, fix=fix))

    if values.get("checkpoints.writable") is False:
        say("doctor.checkpoints", "error", f"{values.get('checkpoints.folder')} cannot be written to: "
            f"{values.get('checkpoints.problem')}", "checkpoints.problem")  # fmt: skip
    if values.get("checkpoints.fits") == 0:
        say("doctor.checkpoints", "error", "not even one checkpoint fits: "
            f"{format_bytes(float(values['checkpoints.free_bytes'] or 0))} free", "checkpoints.free_bytes")  # fmt: skip
    shm = values.get("shm.total_bytes")
    if isinstance(shm, int) and shm < LITTLE_SHM:
        say("doctor.shm", "warning", f"/dev/shm has {format_bytes(shm)}: loaders with workers and NCCL need more",
            "shm.total_bytes", "start the container with --shm-size=16g or --ipc=host")  # fmt: skip
    files = values.get("limit.nofile")
    if isinstance(files, int) and files < FEW_FILES:
        say("doctor.limits", "warning", f"only {files} files may be open at once", "limit.nofile", "ulimit -n 65536")
    ports = any(name.startswith("infiniband.") for name in values)
    if ports and values.get("limit.memlock") not in ("unlimited", None):
        say("doctor.limits", "error", "memory may not be locked without limit, which InfiniBand needs", "limit.memlock",
            "ulimit -l unlimited, for containers --ulimit memlock=-1")  # fmt: skip
    if values.get("torch.problem"):
        say("doctor.torch", "error", f"torch does not answer: {values['torch.problem']}", "torch.problem")
    if (
        values.get("gpu.count")
        and values.get("torch.devices") == 0
        and str(values.get("torch.version", "")).endswith("+cpu")
    ):
        say("doctor.torch", "error", "there are GPUs, and torch is a build for CPUs", "torch.version")
    for name, value in values.items():
        if name.startswith("gpu.") and name.endswith(".ecc_uncorrected") and isinstance(value, int) and value:
            say("doctor.gpu", "error", f"card {name.split('.')[1]} has {value} uncorrected memory errors", name)
        if name.startswith("infiniband.") and name.endswith(".state") and "ACTIVE" not in str(value):
            say("doctor.network", "warning", f"{name.split('.')[1]} port {name.split('.')[2]} is {value}", name)
    return found


def unknown_variables(snapshot: Snapshot) -> list[UnknownVariable]:
    """Return the variables that are set and that the library of their prefix does not read."""
    names = [name.partition(".")[2] for name in snapshot.values if name.startswith("environment.")]
    return [wrong for name in sorted(names) if (wrong := unknown(name)) is not None]


def _variable(wrong: UnknownVariable, where: Location) -> Finding:
    message = f"{wrong.name} is set, and {wrong.library} {wrong.version} does not read it"
    if wrong.instead:
        message += f"; {wrong.instead}"
    elif wrong.nearest:
        message += f"; did you mean {wrong.nearest}?"
    return Finding("doctor.variable", CODES["doctor.variable"], "warning", "likely", message, where)


def of_differences(differences: tuple[Difference, ...], snapshots: Mapping[int, Snapshot]) -> list[Finding]:
    """Return the differences as findings, at the rank (or node) that is alone with its value."""
    found = []
    for one in differences:
        if one.weight == "info":
            continue
        odd = sorted(rank for ranks in one.unusual.values() for rank in ranks)
        nodes = {snapshots[rank].node for rank in odd}
        node = next(iter(nodes)) if len(nodes) == 1 else None
        where = Location(rank=odd[0] if len(odd) == 1 else None, node=node)
        values = ", ".join(f"{value} on {ranks_text(ranks)}" for value, ranks in one.unusual.items())
        message = f"{one.key} is {one.usual} on {one.usual_ranks} ranks, {values}"
        message += f" (all of node {node})" if node and len(odd) > 1 else ""
        found.append(
            Finding("doctor.difference", CODES["doctor.difference"], one.weight, "certain",
                    message + (f". {one.reason[:1].upper()}{one.reason[1:]}" if one.reason else ""), where)
        )  # fmt: skip
    return found


def ranks_text(ranks: tuple[int, ...]) -> str:
    """Return ranks as people write them: ``rank 3``, ``ranks 0, 2-5``."""
    parts: list[str] = []
    start = last = ranks[0]
    for rank in (*ranks[1:], None):
        if rank is not None and rank == last + 1:
            last = rank
            continue
        parts.append(str(start) if start == last else f"{start}-{last}")
        if rank is not None:
            start = last = rank
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(parts)}"
