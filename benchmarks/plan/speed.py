"""How many layouts a second memory and time are evaluated for, on one core.

python benchmarks/plan/speed.py [LAYOUTS]
"""

from __future__ import annotations

import sys
import time

import msgspec
import numpy as np

from preflight.catalog.architectures import resolve_model
from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.plan.evaluate import evaluate
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

# Columns of this length stay in the second-level cache.
BLOCK = 4096


def main() -> None:
    """Evaluate random layouts of GPT-3 and of Llama 3 8B on 1,024 H100, and print the rate of each."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    cluster = Cluster(gpu=resolve_gpu("H100"), num_gpus=1024, intra=load_link("nvlink_4"), inter=load_link("ib_ndr"))
    rng = np.random.default_rng(0)
    tp, pp = 2.0 ** rng.integers(0, 4, count), 2.0 ** rng.integers(0, 5, count)
    micro = 2.0 ** rng.integers(0, 4, count)
    dims = ParallelDims(zero_stage=1, framework="megatron", sequence_parallel=True)
    run = RunSpec(
        global_batch=1024, sequence_length=2048, precision="bf16", optimizer="adamw", stack="megatron", recompute="full"
    )
    gpt3 = ModelSpec(
        family="transformer_decoder", layers=96, hidden=12288, heads=96, ffn=49152, vocab=51200, tied_embeddings=True,
        learned_positions=True, max_positions=2048, norm="layernorm", bias=True, activation="gelu",
    )  # fmt: skip
    for name, model in (("GPT-3 175B", gpt3), ("Llama 3 8B", resolve_model("llama-3-8b"))):
        begin = time.process_time()
        for at in range(0, count, BLOCK):
            part = slice(at, at + BLOCK)
            degrees = {"tp": tp[part], "pp": pp[part], "dp_shard": 1024 / (tp[part] * pp[part])}
            evaluate(
                model, msgspec.structs.replace(run, micro_batch=micro[part]), msgspec.structs.replace(dims, **degrees),
                cluster,
            )  # fmt: skip
        spent = time.process_time() - begin
        print(f"{name}: {count / spent:,.0f} layouts a second ({count:,} in {spent:.2f} s of one core)")


if __name__ == "__main__":
    main()
