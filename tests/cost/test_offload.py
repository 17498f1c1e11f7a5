"""States on the host save memory and take time: more with more states, less with more ranks."""

from __future__ import annotations

import msgspec
import pytest

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.machine import host_rate
from preflight.plan.evaluate import evaluate
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

_MODEL = ModelSpec(
    family="transformer_decoder", layers=24, hidden=2048, heads=16, ffn=5632, gated=True, activation="silu",
    norm="rmsnorm", bias=False, vocab=32000, tied_embeddings=False,
)  # fmt: skip
_RUN = RunSpec(global_batch=32, micro_batch=1, sequence_length=2048, precision="bf16", optimizer="adamw", foreach=False)


def _evaluated(run: RunSpec, ranks: int, stage: int, model: ModelSpec = _MODEL) -> tuple[float, float]:
    cluster = Cluster(gpu=resolve_gpu("a100-80gb"), num_gpus=ranks, intra=load_link("nvlink_3"))
    parallel = ParallelDims(dp_shard=ranks, zero_stage=stage, framework="deepspeed")
    known = evaluate(model, run, parallel, cluster)
    assert known.step is not None
    return known.device, known.step.total


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_states_on_the_host_save_memory_and_take_time(stage: int) -> None:
    away = msgspec.structs.replace(_RUN, offload="optimizer")
    (here, quick), (small, slow) = _evaluated(_RUN, 8, stage), _evaluated(away, 8, stage)
    assert small < here
    assert slow > quick


def test_weights_on_the_host_are_fetched_for_every_micro_batch() -> None:
    many = msgspec.structs.replace(_RUN, offload="parameters", sequence_length=64)
    few = msgspec.structs.replace(many, micro_batch=4)
    # Samples this short leave too little work to fetch beside: four times the micro-batches fetch four times as much.
    added = [
        _evaluated(one, 8, 3)[1] - _evaluated(msgspec.structs.replace(one, offload="optimizer"), 8, 3)[1]
        for one in (many, few)
    ]
    assert added[0] > added[1] >= 0


def test_the_host_is_shared_by_the_gpus_of_a_node() -> None:
    away = msgspec.structs.replace(_RUN, offload="optimizer")
    times = {}
    for ranks in (2, 4, 8):
        known, plain = _evaluated(away, ranks, 1), _evaluated(_RUN, ranks, 1)
        times[ranks] = known[1] - plain[1]
    # The update itself passes over all states of the node, however many GPUs divide them; only transfers shrink.
    assert times[2] >= times[4] >= times[8] > 0.5 * times[2]


def test_the_link_to_the_host_is_that_of_the_gpu() -> None:
    a100, h100, gb200 = (host_rate(resolve_gpu(name)) for name in ("A100", "H100", "GB200"))
    assert a100 == pytest.approx(25e9, rel=0.01)
    assert h100 == pytest.approx(2 * a100, rel=0.01)
    assert gb200 > 10 * a100
    assert host_rate(msgspec.structs.replace(resolve_gpu("A100"), host_link=None)) == 25e9


def _away(run: RunSpec, gpu: str = "a100-80gb") -> tuple[float, float]:
    cluster = Cluster(gpu=resolve_gpu(gpu), num_gpus=8, intra=load_link("nvlink_3"))
    known = evaluate(_MODEL, run, ParallelDims(dp_shard=8, zero_stage=3, framework="fsdp2"), cluster)
    assert known.step is not None
    return known.device, known.step.total


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_activations_on_the_host_save_memory(recompute: str) -> None:
    here = msgspec.structs.replace(_RUN, micro_batch=4, recompute=recompute, cross_entropy="fused")
    away = msgspec.structs.replace(here, offload="activations")
    assert _away(away)[0] < _away(here)[0]
    assert _away(away)[1] >= _away(here)[1]


def test_inputs_of_blocks_travel_beside_the_kernels_and_all_activations_do_not() -> None:
    full = msgspec.structs.replace(_RUN, micro_batch=4, recompute="full")
    added = {
        kind: _away(msgspec.structs.replace(one, offload="activations"))[1] / _away(one)[1] - 1
        for kind, one in (("full", full), ("none", msgspec.structs.replace(full, recompute="none")))
    }
    # The input of a block is 4 kB a token, all that it keeps 100 kB: 0.16 and 4 us at 25 GB/s, where 0.1 GFLOP take 0.5 us.
    assert added["full"] == 0.0
    assert added["none"] > 0.5
