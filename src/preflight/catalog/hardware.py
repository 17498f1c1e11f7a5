"""GPUs, links and prices from the catalog, and the one resolver of what people call them.

The catalog stores what a driver reports; files are in readable units (GB/s, TFLOP/s),
values in SI (bytes/s, FLOP/s).
"""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from typing import Literal

import msgspec

from preflight.catalog import files
from preflight.errors import CatalogError, UsageError
from preflight.vocabulary.hardware import Gpu, Link, Price
from preflight.vocabulary.quantity import GIB, MIB

GPUS, LINKS, CLOUDS = "gpus", "links", "clouds"
DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")

# Words that name the maker, the series or the packaging, and do not tell two cards of one catalog apart.
_NOISE = frozenset(
    {"nvidia", "amd", "geforce", "tesla", "quadro", "instinct", "radeon", "graphics", "generation", "gpu", "gpus"}
    | {"tensor", "core", "card", "accelerator", "oam", "ac", "hbm2", "hbm2e", "hbm3", "hbm3e"}
    | {"gddr5", "gddr5x", "gddr6", "gddr6x", "gddr7"}
)
# "A 100", "RTX-4090", "MI 300X": the letter and the number are one word.
_SPLIT_MODEL = re.compile(r"\b(rtx|gtx|mi|gh|gb|[abhltpv])[\s_-]+(?=\d)")
_SPLIT_SIZE = re.compile(r"(?<![a-z\d])(\d+)\s*(?:gib|gb|g)\b")
_WORD = re.compile(r"[a-z0-9.]+")
_FORM = re.compile(r"^sxm\d$")


class _GpuFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of ``gpus/``."""

    title: str
    vendor: str
    memory_bytes: int
    sold_as_gb: float
    bandwidth_gb_per_s: float
    peak_tflops: dict[str, float]
    architecture: str
    sources: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    achievable_tflops: dict[str, float] = {}
    achievable_gb_per_s: float | None = None
    compute_capability: tuple[int, int] | None = None
    sms: int | None = None
    l2_mib: float | None = None
    fabric: str | None = None
    host_link: str | None = None
    watts: float | None = None
    gpus_per_node: int | None = None
    context_mib: float | None = None
    notes: str | None = None


class _LinkFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of ``links/``."""

    title: str
    scope: str
    bandwidth_gb_per_s: float
    sources: tuple[str, ...]
    latency_us: float | None = None
    aliases: tuple[str, ...] = ()
    topology: Literal["switched", "mesh"] = "switched"
    notes: str | None = None


class _PriceRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One range in a file of ``clouds/``."""

    gpu: str
    low: float
    high: float
    mid: float | None = None
    kind: str = "on-demand"
    notes: str | None = None


class _CloudFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of ``clouds/``: prices that were read on one day from one place."""

    title: str
    date: str
    sources: tuple[str, ...]
    prices: tuple[_PriceRow, ...]
    notes: str | None = None


def gpu_names(extra: files.Folders = ()) -> tuple[str, ...]:
    """Return the keys of all GPUs, sorted."""
    return files.names(GPUS, extra)


def link_names(extra: files.Folders = ()) -> tuple[str, ...]:
    """Return the keys of all links, sorted."""
    return files.names(LINKS, extra)


def load_gpu(name: str, extra: files.Folders = ()) -> Gpu:
    """Return the GPU with this key.

    Raises:
        UsageError: There is none.
        CatalogError: Its file is wrong.
    """
    path = files.find(GPUS, name, extra)
    if path is None:
        raise _unknown("GPU", name, GPUS, extra)
    return _read_gpu(path)


@cache
def _read_gpu(path: str) -> Gpu:
    """Return the GPU in one file, in SI units."""
    read = files.convert(files.parse(path), _GpuFile, path)
    for key in (*read.peak_tflops, *read.achievable_tflops):
        if key not in DTYPES:
            raise CatalogError(f"{path}: unknown dtype '{key}'", hint="one of " + ", ".join(DTYPES))
    return Gpu(
        name=_key_of(path),
        title=read.title,
        vendor=read.vendor,
        memory_bytes=read.memory_bytes,
        sold_as_gb=read.sold_as_gb,
        bandwidth=read.bandwidth_gb_per_s * 1e9,
        peak_flops={dtype: value * 1e12 for dtype, value in read.peak_tflops.items()},
        achievable_flops={dtype: value * 1e12 for dtype, value in read.achievable_tflops.items()},
        architecture=read.architecture,
        sources=read.sources,
        aliases=read.aliases,
        achievable_bandwidth=None if read.achievable_gb_per_s is None else read.achievable_gb_per_s * 1e9,
        compute_capability=read.compute_capability,
        sms=read.sms,
        l2_bytes=None if read.l2_mib is None else int(read.l2_mib * MIB),
        fabric=read.fabric,
        host_link=read.host_link,
        watts=read.watts,
        gpus_per_node=read.gpus_per_node,
        context_bytes=None if read.context_mib is None else int(read.context_mib * MIB),
        notes=read.notes,
    )


def load_link(name: str, extra: files.Folders = ()) -> Link:
    """Return the link with this key.

    Raises:
        UsageError: There is none.
        CatalogError: Its file is wrong.
    """
    path = files.find(LINKS, name, extra)
    if path is None:
        raise _unknown("link", name, LINKS, extra)
    read = files.convert(files.parse(path), _LinkFile, path)
    return Link(
        name=_key_of(path),
        title=read.title,
        scope=read.scope,
        bandwidth=read.bandwidth_gb_per_s * 1e9,
        sources=read.sources,
        latency=None if read.latency_us is None else read.latency_us * 1e-6,
        aliases=read.aliases,
        topology=read.topology,
        notes=read.notes,
    )


def _key_of(path: str) -> str:
    """Return the key that a file name is."""
    return os.path.basename(path)[: -len(files.SUFFIX)]


def spelling(text: str) -> str:
    """Return the form in which two spellings of one thing are equal.

    Case, order, separators, maker and memory type do not count: ``NVIDIA A100-SXM4-40GB`` is ``40gb a100 sxm``.
    """
    lowered = _SPLIT_MODEL.sub(r"\1", text.casefold().replace("_", " "))
    lowered = _SPLIT_SIZE.sub(r" \1gb ", lowered)
    words = {"sxm" if _FORM.match(word) else word for word in _WORD.findall(lowered)}
    return " ".join(sorted(words - _NOISE))


def resolve_gpu(text: str, extra: files.Folders = ()) -> Gpu:
    """Return the GPU that a person means by ``h100``, ``NVIDIA H100 80GB HBM3`` or ``GeForce RTX 4090``.

    A name without form or size means the default that lists it among its aliases: ``h100`` is the SXM card with 80 GB,
    ``a100`` the SXM card with 80 GB, ``v100`` the SXM2 card with 16 GB.

    Raises:
        UsageError: No GPU has that name; the hint names the nearest.
    """
    return load_gpu(_resolve(text, "GPU", GPUS, tuple(extra)), extra)


def resolve_link(text: str, extra: files.Folders = ()) -> Link:
    """Return the link that a person means by ``nvlink 4``, ``NDR`` or ``ib_ndr``.

    Raises:
        UsageError: No link has that name; the hint names the nearest.
    """
    return load_link(_resolve(text, "link", LINKS, tuple(extra)), extra)


@lru_cache(maxsize=256)
def _resolve(text: str, what: str, kind: str, extra: tuple[str, ...]) -> str:
    """Return the key that a spelling stands for.

    A key or the spelling of a key wins over an alias, a user's file over a shipped one.
    Aliases are read from the raw text, first from files named after a word of the spelling.
    """
    wanted = spelling(text)
    if not wanted:
        raise _unknown(what, text, kind, extra)
    for folder in files.folders(kind, extra):
        keys = files.listing(folder)
        for key in keys:
            if key == text or spelling(key) == wanted:
                return key
        words = set(wanted.split())
        for key in sorted(keys, key=lambda key: (key.split("_", 1)[0] not in words, key)):
            for alias in files.aliases_of(os.path.join(folder, key + files.SUFFIX)):
                if spelling(alias) == wanted:
                    return key
    raise _unknown(what, text, kind, extra)


def _unknown(what: str, text: str, kind: str, extra: files.Folders) -> UsageError:
    """Return the error for a name that nothing has, with the nearest name that something has."""
    from difflib import get_close_matches

    known = {key: key for key in files.names(kind, extra)}
    known.update({alias.casefold(): key for alias, key in files.aliases(kind, extra)})
    close = get_close_matches(text.casefold(), sorted(known), n=1, cutoff=0.5)
    listing = (
        f"'preflight list {kind}' names them all" if kind == GPUS else "known: " + ", ".join(files.names(kind, extra))
    )
    shown = text if len(text) <= 60 else text[:57] + "..."
    return UsageError(
        f"unknown {what} {shown!r}",
        hint=f"did you mean '{close[0]}' ({known[close[0]]})? {listing}" if close else listing,
    )


def card_sold_as(gb: float, extra: files.Folders = ()) -> Gpu | None:
    """Return the card sold with this size whose driver reports the least, or None when no card is sold so.

    Among cards of one size the smallest total is the safe one: 80 GB is 79.11 GiB on one and 79.25 GiB on another.
    """
    found: list[tuple[int, str]] = []
    for name in gpu_names(extra):
        path = files.find(GPUS, name, extra)
        text = files.read_text(path) if path else ""
        if files.plain_number(text, "sold_as_gb") == gb:
            total = files.plain_number(text, "memory_bytes")
            found.append((int(total or 0), name))
    return load_gpu(min(found)[1], extra) if found else None


def gpu_from_memory(gb: float, extra: files.Folders = ()) -> int:
    """Return the capacity in bytes that ``--gpu-memory GB`` stands for.

    The number is the size on the box; a driver reports less or, seldom, more.
    Where cards of that size are in the catalog, it is the smallest total among them (`card_sold_as` says which card).
    Otherwise nothing is known about what a driver would hold back, and it is ``gb`` GiB without a deduction.

    Raises:
        UsageError: The size is not a positive, finite number.
    """
    if not 0 < gb < 1e6:
        raise UsageError(f"--gpu-memory {gb} is not a size in GB", hint="for example --gpu-memory 80")
    card = card_sold_as(gb, extra)
    return card.memory_bytes if card else int(gb * GIB)


def prices_for(gpu: str, extra: files.Folders = ()) -> tuple[Price, ...]:
    """Return the price ranges of a GPU (its key), the newest first; none when no price was read for it."""
    found: list[Price] = []
    for name in files.names(CLOUDS, extra):
        path = files.find(CLOUDS, name, extra)
        if path is None or f'"{gpu}"' not in files.read_text(path):
            continue
        read = files.convert(files.parse(path), _CloudFile, path)
        found += [
            Price(
                gpu=row.gpu,
                usd_per_hour_low=row.low,
                usd_per_hour_mid=row.mid,
                usd_per_hour_high=row.high,
                date=read.date,
                sources=read.sources,
                kind=row.kind,
                notes=row.notes,
            )
            for row in read.prices
            if row.gpu == gpu
        ]
    return tuple(sorted(found, key=lambda price: (price.date, price.kind, price.usd_per_hour_low), reverse=True))
