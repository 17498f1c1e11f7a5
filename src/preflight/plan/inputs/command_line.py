"""From the arguments of the command line to a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.errors import UsageError, nearest
from preflight.plan.inputs.sizes import decoder_of, in_words
from preflight.plan.request import Request, Wish
from preflight.plan.spread import strategy_named
from preflight.vocabulary.hardware import Cluster, Gpu
from preflight.vocabulary.run import RunSpec

MODEL_TYPES = ("transformer", "transformer_decoder")
DEFAULT_GPU = "h100_sxm"
DEFAULT_LENGTH = 2048
_INTER = {"volta": "ib_edr", "ampere": "ib_hdr", "hopper": "ib_ndr", "blackwell": "ib_ndr", "cdna3": "roce_400"}


def request_of(words: tuple[str, ...], given: Mapping[str, Any]) -> Request:
    """Return the request of a command line.

    Args:
        words: ``[MODEL_TYPE] SIZE_BILLIONS BATCH``.
        given: The options.

    Raises:
        UsageError: A word or an option is wrong.
    """
    billions, batch = _size_and_batch(words)
    gpu = resolve_gpu(given.get("gpu") or DEFAULT_GPU)
    gpus = given.get("gpus") or 1
    model = decoder_of(billions)
    length = given.get("sequence_length") or DEFAULT_LENGTH
    strategy = strategy_named(given["strategy"]) if given.get("strategy") else None
    run = RunSpec(
        global_batch=batch, sequence_length=length, precision="bf16", optimizer="adamw", foreach=False,
        stack="megatron" if strategy in ("tensor_parallel", "pipeline_parallel", "hybrid") else "eager",
    )  # fmt: skip
    assumptions = (
        f"{billions:g} billion parameters stand for a decoder of {in_words(model)}",
        "bf16 with fp32 master weights, AdamW, flash attention, nothing recomputed",
    )
    return Request(
        model=model, run=run, cluster=cluster_of(gpu, gpus), wish=Wish(strategy=strategy), assumptions=assumptions,
        inputs={"subject": f"{billions:g}B decoder on {gpus} x {gpu.title}", "model": f"{billions:g}B decoder", "batch": batch, "gpus": gpus, "gpu": gpu.name, "strategy": strategy},
    )  # fmt: skip


def cluster_of(gpu: Gpu, gpus: int) -> Cluster:
    """Return the usual cluster of so many GPUs of a kind."""
    inside = gpu.gpus_per_node or 8
    between = _INTER.get(gpu.architecture, "ethernet_100")
    return Cluster(
        gpu=gpu, num_gpus=gpus, gpus_per_node=inside, intra=load_link(gpu.fabric) if gpu.fabric else None,
        inter=load_link(between) if gpus > inside else None,
    )  # fmt: skip


def _size_and_batch(words: tuple[str, ...]) -> tuple[float, int]:
    """Return size and batch; the type of the model may stand before them."""
    rest = list(words)
    if rest and not _number(rest[0]):
        kind = rest.pop(0).lower()
        if kind not in MODEL_TYPES:
            near = nearest(kind, MODEL_TYPES)
            raise UsageError(f"no model type is called {kind!r}", f"did you mean {near}?" if near else None)
    if len(rest) != 2 or not all(_number(word) for word in rest):
        raise UsageError("a plan needs the size in billions and the batch", "preflight plan transformer 7.0 32")
    batch = float(rest[1])
    if batch < 1 or batch != int(batch):
        raise UsageError(f"a batch of {rest[1]}", "a whole number of samples, at least 1")
    return float(rest[0]), int(batch)


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
