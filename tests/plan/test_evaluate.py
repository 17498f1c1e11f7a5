"""Columns of layouts and single layouts are the same physics."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.catalog.hardware import resolve_gpu
from preflight.cost.memory import estimate_memory
from preflight.plan.evaluate import evaluate
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

DENSE = ModelSpec(
    family="transformer_decoder", layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, vocab=128256,
    activation="silu", tied_embeddings=False, norm="rmsnorm",
)  # fmt: skip
TIED = msgspec.structs.replace(DENSE, tied_embeddings=True, gated=False, norm="layernorm", dropout=0.1)
EXPERTS = msgspec.structs.replace(
    DENSE, family="moe", experts=16, experts_per_token=2, expert_ffn=2048, shared_experts=1, dense_layers=2
)
LATENT = msgspec.structs.replace(
    EXPERTS, kv_heads=None, head_dim=192, q_lora_rank=1536, kv_lora_rank=512, rope_head_dim=64, value_head_dim=128
)
degrees = st.fixed_dictionaries(
    {
        "dp_replicate": st.sampled_from([1, 2]),
        "dp_shard": st.sampled_from([1, 2, 8]),
        "cp": st.sampled_from([1, 2]),
        "tp": st.sampled_from([1, 2, 8]),
        "pp": st.sampled_from([1, 2, 4]),
        "vp": st.sampled_from([1, 2]),
        "ep": st.sampled_from([1, 2]),
        "micro_batch": st.sampled_from([1, 3, 8]),
    }
)
kinds = st.fixed_dictionaries(
    {
        "zero_stage": st.integers(0, 3),
        "framework": st.sampled_from(["ddp", "fsdp2", "deepspeed", "megatron"]),
        "sequence_parallel": st.booleans(),
        "schedule": st.sampled_from(["1f1b", "gpipe", "zb1p", "zb2p"]),
        "reshard": st.booleans(),
        "first_layers": st.sampled_from([None, 6]),
    }
)
runs = st.builds(
    RunSpec,
    sequence_length=st.just(2048),
    global_batch=st.just(1536),
    precision=st.sampled_from(["fp32", "autocast-bf16", "bf16", "pure-bf16", "fp8"]),
    optimizer=st.sampled_from(["adamw", "sgd", "adamw8bit", "adafactor"]),
    attention=st.sampled_from(["flash", "eager"]),
    recompute=st.sampled_from(["none", "full", "selective", "op"]),
    stack=st.sampled_from(["eager", "compile", "megatron"]),
    cross_entropy=st.sampled_from(["eager", "fused", "chunked", "parallel"]),
    offload=st.sampled_from(["none", "optimizer", "parameters", "activations"]),
    expert_imbalance=st.sampled_from([1.0, 1.5]),
)


def cluster() -> Cluster:
    return Cluster(gpu=resolve_gpu("h100"), num_gpus=8)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([DENSE, TIED, EXPERTS, LATENT]), runs, kinds, st.lists(degrees, min_size=1, max_size=4))
def test_a_column_is_the_single_layouts_beside_each_other(
    model: ModelSpec, run: RunSpec, kind: dict[str, Any], many: list[dict[str, int]]
) -> None:
    columns: dict[str, Any] = {name: numpy.array([one[name] for one in many]) for name in many[0]}
    micro = columns.pop("micro_batch")
    together = evaluate(
        model, msgspec.structs.replace(run, micro_batch=micro), ParallelDims(**kind, **columns), cluster()
    )
    for index, one in enumerate(many):
        rest = dict(one)
        single = msgspec.structs.replace(run, micro_batch=rest.pop("micro_batch"))
        memory = estimate_memory(model, single, ParallelDims(**kind, **rest), cluster().gpu)
        assert memory.peak_bytes is not None
        assert memory.device_bytes is not None
        allocated = numpy.broadcast_to(together.allocated, len(many))[index]
        device = numpy.broadcast_to(together.device, len(many))[index]
        assert allocated == pytest.approx(memory.peak_bytes.mid, rel=1e-9)
        assert device == pytest.approx(memory.device_bytes.mid, rel=1e-9)
