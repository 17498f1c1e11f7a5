"""A published measurement in the words of a plan, and what several sources share in putting it there."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.catalog.hardware import resolve_gpu
from preflight.catalog.measured import Row
from preflight.errors import PreflightError
from preflight.vocabulary.hardware import Cluster, Gpu
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


class Expressed(msgspec.Struct, frozen=True, kw_only=True):
    """A row in the vocabulary's words.

    Attributes:
        model: The architecture. run: How it was trained. parallel: How it was spread.
        cluster: Where it ran, when the catalog has its GPU; None otherwise.
        stage: The pipeline stage that was measured, when it was not the fullest.
    """

    model: ModelSpec
    run: RunSpec
    parallel: ParallelDims
    cluster: Cluster | None = None
    stage: int | None = None


class CannotExpress(Exception):
    """Why a row cannot be expressed: what its source does not say, or what the vocabulary has no word for."""


def number(row: Row, key: str) -> int:
    """Return a whole number of a row.

    Raises:
        CannotExpress: The cell is empty or holds words.
    """
    try:
        return int(row[key])
    except (KeyError, ValueError):
        raise CannotExpress(f"{key} not stated as a number") from None


def architecture(row: Row) -> dict[str, Any]:
    """Return the architecture that a row carries.

    Raises:
        CannotExpress: It carries none.
    """
    if not row["arch_json"]:
        raise CannotExpress("architecture not stated")
    found: dict[str, Any] = msgspec.json.decode(row["arch_json"])
    return found


def torch_of(row: Row) -> str | None:
    """Return the version of PyTorch that a row names (``torch 2.11``), or None."""
    words = row.get("software", "").split()
    return words[1] if words[:1] == ["torch"] else None


def gpu_of(row: Row) -> Gpu | None:
    """Return the catalog's GPU of a row, or None when it has none."""
    try:
        return resolve_gpu(row["gpu"]) if row.get("gpu") else None
    except PreflightError:
        return None


def cluster_of(row: Row) -> Cluster | None:
    """Return the usual cluster of a row's GPUs, or None when the catalog does not have them."""
    from preflight.plan.inputs.cluster import cluster_of as usual

    gpu = gpu_of(row)
    return usual(gpu, int(row["num_gpus"])) if gpu is not None and row.get("num_gpus") else None


def decoder(arch: dict[str, Any], **more: Any) -> ModelSpec:
    """Return a decoder: gated ones with RMS norms, the GELU ones of these sources (GPT-NeoX kin) with LayerNorm."""
    gated = arch.get("act") in ("swiglu", "geglu")
    fields: dict[str, Any] = {
        "family": "transformer_decoder",
        "layers": arch["layers"],
        "hidden": arch["hidden"],
        "heads": arch["heads"],
        "kv_heads": arch.get("kv_heads"),
        "head_dim": arch.get("head_dim"),
        "ffn": arch["ffn"],
        "gated": gated,
        "activation": {"swiglu": "silu", "geglu": "gelu"}.get(arch.get("act", ""), "gelu"),
        "norm": "rmsnorm" if gated else "layernorm",
        "bias": not gated,
        "vocab": arch["vocab"],
        "tied_embeddings": bool(arch.get("tied", False)),
    }
    return ModelSpec(**(fields | more))
