"""The page of a GPU: what the catalog knows of it, what memory and time are reckoned with, prices, sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from preflight.catalog.hardware import load_link, prices_for, resolve_gpu
from preflight.cli.parts.documents import Document, Entry, Section
from preflight.errors import UsageError
from preflight.vocabulary.hardware import Gpu, Price
from preflight.vocabulary.quantity import GIB, MIB

TERA, GIGA = 1e12, 1e9


def named_gpu(identifier: str, catalog: tuple[str, ...] = ()) -> Gpu | None:
    """Return the GPU that a person means by a name, None where none is called so."""
    try:
        return resolve_gpu(identifier, catalog)
    except UsageError:
        return None


def gpu_values(gpu: Gpu, catalog: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what JSON shows of a GPU: the catalog's values in SI units, and its prices."""
    prices = [msgspec.to_builtins(price) for price in prices_for(gpu.name, catalog)]
    return {"schema": "preflight.gpu/1", "kind": "gpus", **msgspec.to_builtins(gpu), "prices": prices}


def gpu_document(gpu: Gpu, catalog: tuple[str, ...] = ()) -> Document:
    """Return the page of a GPU; what the catalog does not know of it is not on the page."""
    called = f"; also called {', '.join(gpu.aliases)}" if gpu.aliases else ""
    capability = f"; compute capability {'.'.join(map(str, gpu.compute_capability))}" if gpu.compute_capability else ""
    about = f"a GPU of the catalog; {gpu.vendor}, {gpu.architecture}{capability}{called}"
    return Document(
        gpu.name,
        (gpu.title, about),
        (gpu.notes,) if gpu.notes else (),
        (
            Section("Memory", tuple(_memory(gpu))),
            Section("Arithmetic", tuple(_arithmetic(gpu)), note="dense, without structured sparsity"),
            Section("The board", tuple(_board(gpu, catalog))),
            Section("What figures are made with", tuple(_reckoned(gpu))),
            Section(
                "Prices",
                tuple(_price(price) for price in prices_for(gpu.name, catalog)),
                note="for one GPU and hour, as they were read; no quotes",
            ),
            Section("To reckon with it", tuple(_commands(gpu))),
            Section(
                "Where it was read",
                tuple(map(Entry, gpu.sources)),
                note="single figures are facts; NOTICE names the collections with their licences",
            ),
        ),
    )


def _memory(gpu: Gpu) -> Iterator[Entry]:
    yield Entry(f"{gpu.memory_bytes / GIB:.2f} GiB", lead="reported by the driver")
    yield Entry(f"{gpu.sold_as_gb:g} GB", lead="sold as")
    yield Entry(f"{gpu.bandwidth / GIGA:,.0f} GB/s", lead="bandwidth")
    if gpu.achievable_bandwidth:
        share = gpu.achievable_bandwidth / gpu.bandwidth
        yield Entry(f"{gpu.achievable_bandwidth / GIGA:,.0f} GB/s, {share:.0%} of that", lead="bandwidth, measured")
    if gpu.l2_bytes:
        yield Entry(f"{gpu.l2_bytes / MIB:g} MiB", lead="L2 cache")


def _arithmetic(gpu: Gpu) -> Iterator[Entry]:
    """The peak of each type, what was measured of it, and below how many operations on a byte memory limits."""
    for dtype, peak in gpu.peak_flops.items():
        said = [f"{peak / TERA:,.1f} TFLOP/s"]
        if measured := gpu.achievable_flops.get(dtype):
            said.append(f"{measured / TERA:,.1f} measured in the largest products, {measured / peak:.0%}")
        said.append(f"memory limits below {peak / gpu.bandwidth:,.0f} FLOP per byte")
        yield Entry("; ".join(said), lead=dtype)


def _board(gpu: Gpu, catalog: tuple[str, ...]) -> Iterator[Entry]:
    if gpu.sms:
        yield Entry(str(gpu.sms), lead="multiprocessors" if gpu.vendor == "nvidia" else "compute units")
    for lead, name in (("between GPUs", gpu.fabric), ("to the host", gpu.host_link)):
        if name:
            link = load_link(name, catalog)
            yield Entry(f"{link.title}, {link.bandwidth / GIGA:g} GB/s in one direction", link.name, lead)
    if gpu.gpus_per_node:
        yield Entry(f"usually {gpu.gpus_per_node}", lead="in a node")
    if gpu.watts:
        yield Entry(f"{gpu.watts:g} W", lead="power")


def _reckoned(gpu: Gpu) -> Iterator[Entry]:
    """What check and plan take from here; each the same function that they call."""
    from preflight.cost.machine import host_rate, reached
    from preflight.cost.workspace import context_bytes, cublas_workspace
    from preflight.vocabulary.run import ParallelDims

    context = context_bytes(gpu, ParallelDims())
    yield Entry(
        f"a run fits when what the driver would show stays below {gpu.memory_bytes / GIB:.2f} GiB; "
        f"{context.low / MIB:,.0f} to {context.high / MIB:,.0f} MiB of that belong to the driver and to libraries",
        lead="memory",
    )
    yield Entry(f"{cublas_workspace(gpu) / MIB:g} MiB for each thread that multiplies", lead="workspace of cuBLAS")
    dtype = next((one for one in ("bf16", "fp16") if one in gpu.peak_flops), None)
    if dtype:
        where = "measured on this board" if dtype in gpu.achievable_flops else "as on boards of its kind"
        yield Entry(f"large products reach {reached(gpu):.0%} of the peak in {dtype}, {where}", lead="time")
    if gpu.host_link:
        yield Entry(f"{host_rate(gpu) / GIGA:.1f} GB/s in one direction, for what is offloaded", lead="to the host")


def _price(price: Price) -> Entry:
    low, high = price.usd_per_hour_low, price.usd_per_hour_high
    span = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    return Entry(f"{span} USD, {price.kind}" + (f"; {price.notes}" if price.notes else ""), lead=price.date)


def _commands(gpu: Gpu) -> Iterator[Entry]:
    yield Entry("a script on it", command=f"preflight check train.py --gpu {gpu.name}")
    if {"bf16", "fp16"} & gpu.peak_flops.keys():
        yield Entry(
            "a model of 7 billion parameters on eight", command=f"preflight plan 7 64 --gpus 8 --gpu {gpu.name}"
        )
