from __future__ import annotations

import pytest

from preflight.catalog.hardware import load_gpu, load_link
from preflight.plan.evaluate import evaluate
from preflight.plan.inputs.sizes import decoder_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.run import ParallelDims, RunSpec

MODEL = decoder_of(7.0)
CLUSTER = Cluster(gpu=load_gpu("h100_sxm"), num_gpus=8, intra=load_link("nvlink_4"))


def both(layers: int | None, recompute: str = "full") -> tuple[float, float]:
    run = RunSpec(
        micro_batch=2, global_batch=16, sequence_length=2048, precision="bf16", optimizer="adamw", foreach=False,
        recompute=recompute, recompute_layers=layers,
    )  # fmt: skip
    found = evaluate(MODEL, run, ParallelDims(dp_shard=8, zero_stage=3, framework="fsdp2"), CLUSTER)
    assert found.step is not None
    return found.allocated, found.step.total


def test_every_recomputed_block_saves_memory_and_costs_time() -> None:
    steps = [both(layers) for layers in (4, 8, 16, 24, 32)]
    assert [memory for memory, _ in steps] == sorted((memory for memory, _ in steps), reverse=True)
    assert [seconds for _, seconds in steps] == sorted(seconds for _, seconds in steps)


def test_all_blocks_are_full_recomputation() -> None:
    assert both(32) == pytest.approx(both(None))
    assert both(4)[0] < both(None, "none")[0]
