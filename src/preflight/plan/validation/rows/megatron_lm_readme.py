"""Megatron-LM's README: weak scaling of GPT models on A100, and the tables of 2020."""

from __future__ import annotations

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import CannotExpress, Expressed, architecture, decoder, number
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row in words."""
    if not row["micro_batch"]:
        raise CannotExpress("micro-batch not stated")
    arch = architecture(row)
    vocab = arch["vocab"] if isinstance(arch["vocab"], int) else 51200
    tp, pp, gpus = number(row, "tp"), number(row, "pp"), number(row, "num_gpus")
    length = number(row, "seq_len")
    model = decoder(
        arch | {"vocab": vocab}, bias=True, fused_qkv=True, dropout=0.1, learned_positions=True, max_positions=length
    )
    run = RunSpec(
        micro_batch=number(row, "micro_batch"), global_batch=number(row, "global_batch"), sequence_length=length,
        precision="fp16" if "fp16" in row["precision"] else "bf16", optimizer="adam", stack="megatron",
        attention="eager" if "fused softmax" in row["attention_impl"] else "flash",
        recompute="full" if row["recompute"].startswith("full") else "none", cross_entropy="eager", clipping=True,
    )  # fmt: skip
    parallel = ParallelDims(dp_replicate=gpus // (tp * pp), tp=tp, pp=pp, vp=int(row["vp"] or 1), framework="megatron")
    return Expressed(model=model, run=run, parallel=parallel, cluster=_cluster(row["gpu"], gpus))


def _cluster(gpu: str, gpus: int) -> Cluster | None:
    """Return the machines of 2020, which are named by their boxes; None for what the catalog resolves itself."""
    if "DGX-A100" in gpu:
        card = resolve_gpu("A100-40GB-SXM")
        return Cluster(gpu=card, num_gpus=gpus, gpus_per_node=8, intra=load_link("nvlink_3"), inter=load_link("ib_hdr"))
    if "DGX-2" in gpu:
        card = resolve_gpu("V100-SXM2-32GB")
        edr = load_link("ib_edr")
        return Cluster(
            gpu=card, num_gpus=gpus, gpus_per_node=16, intra=load_link("nvlink_2"), inter=edr, nics_per_node=8
        )
    return None
