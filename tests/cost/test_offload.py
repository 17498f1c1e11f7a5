"""States on the host save memory and take time: more with more states, less with more ranks."""

from __future__ import annotations

import msgspec
import pytest

from preflight.catalog.hardware import load_link, resolve_gpu
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
