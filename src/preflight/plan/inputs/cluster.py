"""From what was said about GPUs, nodes and links to a cluster; what was not said is the usual, and told."""

from __future__ import annotations

import math

import msgspec

from preflight.catalog.files import Folders
from preflight.catalog.hardware import gpu_from_memory, load_link, resolve_gpu, resolve_link
from preflight.errors import UsageError
from preflight.plan.constraint import nearest_divisor
from preflight.plan.inputs.settings import Settings
from preflight.vocabulary.hardware import Cluster, Gpu, Link

DEFAULT_GPU = "h100_sxm"
USUAL_NODE = 8
# What nodes of a generation are sold with, one port per GPU: DGX-1V has EDR, DGX A100 HDR, DGX H100 and B200 NDR; servers
# of MI300X have 400 Gbit/s Ethernet. Cards for workstations and PCIe servers without a fabric: 100 Gbit/s Ethernet.
_BETWEEN = {
    "volta": "ib_edr", "ampere": "ib_hdr", "hopper": "ib_ndr", "blackwell": "ib_ndr", "cdna2": "roce_200",
    "cdna3": "roce_400", "cdna4": "roce_400",
}  # fmt: skip
_PLAIN_BETWEEN = "ethernet_100"
_DEGREES = ("data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel")


class Chosen(msgspec.Struct, frozen=True):
    """A cluster, with what was taken for granted and what must be said about it."""

    cluster: Cluster
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def cluster_of(gpu: Gpu, gpus: int) -> Cluster:
    """Return the usual cluster of so many GPUs of a kind.

    Raises:
        UsageError: They do not fill nodes.
    """
    inside = _usual(gpus, gpu.gpus_per_node or USUAL_NODE, Settings(), [])[1]
    return Cluster(
        gpu=gpu,
        num_gpus=gpus,
        gpus_per_node=inside,
        intra=load_link(gpu.fabric) if gpu.fabric else None,
        inter=_usual_inter(gpu, ()) if gpus > inside else None,
    )


def cluster_from(settings: Settings, catalog: Folders = ()) -> Chosen:
    """Return the cluster that was described.

    Raises:
        UsageError: A GPU or a link is not known, or the numbers contradict each other.
    """
    assumptions: list[str] = []
    notes: list[str] = []
    gpu = _gpu(settings, catalog, assumptions)
    gpus, inside = _counts(settings, gpu, assumptions)
    return Chosen(
        Cluster(
            gpu=gpu,
            num_gpus=gpus,
            gpus_per_node=inside,
            intra=_intra(settings, gpu, catalog, notes),
            inter=_inter(settings, gpu, gpus > inside, catalog, assumptions),
            nics_per_node=settings.get("cluster.nics_per_node"),
            host_memory_bytes=_giga(settings.get("cluster.host_memory")),
        ),
        tuple(assumptions),
        tuple(notes),
    )


def _giga(value: float | None) -> float | None:
    """Return what was said in units of 10^9."""
    return None if value is None else value * 1e9


def _gpu(settings: Settings, catalog: Folders, assumptions: list[str]) -> Gpu:
    named = settings.get("hardware.gpu_type")
    if named is None:
        assumptions.append("no GPU was named: NVIDIA H100 SXM5 80GB")
        gpu = resolve_gpu(DEFAULT_GPU, catalog)
    else:
        try:
            gpu = resolve_gpu(named, catalog)
        except UsageError as error:
            raise settings.error("hardware.gpu_type", str(error), error.hint) from None
    size, total = settings.get("hardware.gpu_memory"), settings.get("hardware.memory_bytes")
    if size is None and total is None:
        return gpu
    return msgspec.structs.replace(gpu, memory_bytes=gpu_from_memory(size, catalog) if total is None else total)


def _counts(settings: Settings, gpu: Gpu, assumptions: list[str]) -> tuple[int, int]:
    """Return the number of GPUs and those of a node."""
    gpus, nodes, inside = (settings.get(f"cluster.{name}") for name in ("num_gpus", "nodes", "gpus_per_node"))
    usual = gpu.gpus_per_node or USUAL_NODE
    if gpus is None and (nodes is None or inside is None):
        gpus = _spread_over(settings, assumptions)
    if nodes is not None and inside is not None:
        if gpus is not None and nodes * inside != gpus:
            raise _error(
                settings,
                f"{nodes} nodes of {inside} GPUs are {nodes * inside} GPUs, not {gpus}",
                f"num_gpus: {nodes * inside}" + (f", or gpus_per_node: {gpus // nodes}" if gpus % nodes == 0 else ""),
            )
        return int(nodes * inside), int(inside)
    if nodes is not None and gpus is not None:
        if gpus % nodes:
            raise settings.error(
                "cluster.nodes",
                f"{gpus} GPUs cannot be dealt out over {nodes} nodes",
                f"{nearest_divisor(gpus, nodes)} can",
            )
        return gpus, gpus // nodes
    if nodes is not None:
        assumptions.append(f"a node has {usual} GPUs")
        return nodes * usual, usual
    if inside is not None:
        if gpus is not None and gpus > inside and gpus % inside:
            raise settings.error(
                "cluster.gpus_per_node",
                f"{gpus} GPUs do not fill nodes of {inside}",
                f"{nearest_divisor(gpus, inside)} does",
            )
        return gpus or inside, inside
    return _usual(gpus or 1, usual, settings, assumptions)


def _spread_over(settings: Settings, assumptions: list[str]) -> int | None:
    """Return the GPUs that the degrees make up, where degrees were said and no number of GPUs."""
    degrees = [settings.get(f"distribution.{name}") for name in _DEGREES]
    if not any(degrees):
        return None
    gpus: int = math.prod(degree or 1 for degree in degrees)
    assumptions.append(f"{gpus} GPU{'s' if gpus > 1 else ''}, as many as the degrees make up")
    return gpus


def _usual(gpus: int, usual: int, settings: Settings, assumptions: list[str]) -> tuple[int, int]:
    """Return the counts where only the number of GPUs was said: the usual node, or the fullest one that comes out even."""
    if gpus <= usual:
        return gpus, usual
    inside = next(size for size in range(usual, 0, -1) if gpus % size == 0)
    if inside * 2 < usual:
        below = gpus // usual * usual
        raise _error(
            settings,
            f"{gpus} GPUs do not fill nodes of {usual}",
            f"{below} or {below + usual} do; or say gpus_per_node",
        )
    assumptions.append(f"{gpus // inside} nodes of {inside} GPUs")
    return gpus, inside


def _error(settings: Settings, message: str, hint: str) -> UsageError:
    """Return the error about the number of GPUs, wherever it comes from."""
    path = "cluster.num_gpus"
    return settings.error(path, message, hint) if path in settings else UsageError(message, hint)


def _link(settings: Settings, path: str, catalog: Folders) -> Link | None:
    named = settings.get(path)
    if named is None:
        return None
    try:
        return resolve_link(named, catalog)
    except UsageError as error:
        raise settings.error(path, str(error), error.hint) from None


def _intra(settings: Settings, gpu: Gpu, catalog: Folders, notes: list[str]) -> Link | None:
    """Return the link inside a node: as said, but a GPU cannot have the NVLink of another generation."""
    own = load_link(gpu.fabric, catalog) if gpu.fabric else None
    named = _link(settings, "cluster.interconnect", catalog)
    if named is None:
        return own
    if named.scope == "inter_node":
        raise settings.error(
            "cluster.interconnect", f"{named.title} is a link between nodes", f"say inter_node: {named.name}"
        )
    if own is not None and named.name != own.name and named.scope == "intra_node":
        notes.append(f"{gpu.title} has {own.title}, not {named.title}: {own.name} is used")
        return own
    if own is None and named.scope == "intra_node":
        notes.append(f"the catalog knows no {named.title} of {gpu.title}; it is taken as said")
    return named


def _inter(settings: Settings, gpu: Gpu, many: bool, catalog: Folders, assumptions: list[str]) -> Link | None:
    """Return the link between nodes; None for a single node."""
    named = _link(settings, "cluster.inter_node", catalog)
    if named is not None and named.scope != "inter_node":
        raise settings.error(
            "cluster.inter_node", f"{named.title} does not lead from node to node", "for example ib_ndr or roce_400"
        )
    if not many:
        return None
    if named is not None:
        return named
    link = _usual_inter(gpu, catalog)
    assumptions.append(f"between nodes: {link.title}")
    return link


def _usual_inter(gpu: Gpu, catalog: Folders) -> Link:
    return load_link(_BETWEEN.get(gpu.architecture, _PLAIN_BETWEEN) if gpu.fabric else _PLAIN_BETWEEN, catalog)


def resized(cluster: Cluster, gpus: int) -> Cluster:
    """Return more or fewer of the same GPUs in the same kind of nodes, joined as nodes of that GPU usually are.

    A part of a node counts as a whole one where more than it holds are asked for.
    """
    inside = cluster.gpus_per_node
    if gpus > inside and cluster.nodes == 1:
        inside = max(inside, min(cluster.gpu.gpus_per_node or USUAL_NODE, gpus))
    between = cluster.inter or (_usual_inter(cluster.gpu, ()) if gpus > inside else None)
    return msgspec.structs.replace(cluster, num_gpus=gpus, gpus_per_node=inside, inter=between)
