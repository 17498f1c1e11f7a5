"""vTrain's ground truth: GPT shapes under Megatron-DeepSpeed on A100, full recomputation, fp16, vocabulary 51,200."""

from __future__ import annotations

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.catalog.measured import Row
from preflight.plan.validation.expressed import Expressed
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec


def express(row: Row) -> Expressed:
    """Return a row of either table in words.

    Nodes have eight A100 of 80 GB and four HDR cards of 200 Gbit/s: 800 Gbit/s for the node.
    """

    def count(name: str) -> int:
        return int(float(row[name]))

    hidden, length = count("hidden size"), count("sequence length")
    model = ModelSpec(
        family="transformer_decoder", layers=count("# layers"), hidden=hidden, heads=count("attention heads"),
        ffn=4 * hidden, vocab=51200, activation="gelu", norm="layernorm", bias=True, tied_embeddings=True,
        learned_positions=True, max_positions=length, dropout=0.1, fused_qkv=True,
    )  # fmt: skip
    run = RunSpec(
        micro_batch=count("micro batch"), global_batch=count("global batch"), sequence_length=length, precision="fp16",
        optimizer="adam", attention="math", recompute="full", stack="megatron", cross_entropy="eager", clipping=True,
    )  # fmt: skip
    parallel = ParallelDims(
        dp_replicate=count("data parallelism"), tp=count("tensor parallelism"), pp=count("pipeline parallelism"),
        framework="deepspeed",
    )  # fmt: skip
    cluster = Cluster(
        gpu=resolve_gpu("A100-80GB"), num_gpus=count("# GPUs"), gpus_per_node=8, intra=load_link("nvlink_3"),
        inter=load_link("ib_hdr"), nics_per_node=4,
    )  # fmt: skip
    return Expressed(model=model, run=run, parallel=parallel, cluster=cluster)
