"""Stages of models with two towers, and what holds for the time of any step."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.ledger import ledger_of
from preflight.cost.machine import Machine, machine_of
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.stage_time import depth_of
from preflight.cost.step import loading, step_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

DECODER = ModelSpec(
    family="transformer_decoder", layers=12, hidden=1024, heads=16, ffn=4096, vocab=32000, tied_embeddings=False
)
RUN = RunSpec(micro_batch=2, global_batch=64, sequence_length=1024, precision="bf16", optimizer="adamw")


def _machine() -> Machine:
    cluster = Cluster(gpu=resolve_gpu("H100"), num_gpus=64, intra=load_link("nvlink_4"), inter=load_link("ib_ndr"))
    found = machine_of(cluster, RUN)
    assert found is not None
    return found


def _seconds(model: ModelSpec, run: RunSpec, parallel: ParallelDims) -> float:
    count, optimizer = count_parameters(model), optimizer_state("adamw")
    assert count is not None
    assert optimizer is not None
    gpu = resolve_gpu("H100")
    ends = [ledger_of(model, run, parallel, gpu, count, optimizer, stage) for stage in (0, parallel.pp - 1)]
    return step_of(model, run, parallel, _machine(), ends[0], ends[1]).total


def test_a_decoder_block_of_a_pair_counts_for_more_than_one_of_the_encoder() -> None:
    pair = msgspec.structs.replace(DECODER, family="encoder_decoder", decoder_layers=12)
    # 12 of the encoder, and 12 with cross attention: 16 h^2 FLOP a token in the place of 12, and a causal half.
    assert 26.5 < depth_of(pair, RUN) < 28.5
    short = msgspec.structs.replace(RUN, target_length=128)
    assert 12 < depth_of(pair, short) < 16
    assert depth_of(DECODER, RUN) == 12


@given(layers=st.integers(1, 24), length=st.sampled_from([256, 512, 2048]), micro=st.sampled_from([1, 2, 4]))
def test_more_work_never_takes_less(layers: int, length: int, micro: int) -> None:
    model = msgspec.structs.replace(DECODER, layers=layers)
    run = msgspec.structs.replace(RUN, sequence_length=length, micro_batch=micro)
    one = _seconds(model, run, ParallelDims())
    # Equal where the host is slower than the GPU at either size.
    one *= 1 - 1e-9
    assert _seconds(msgspec.structs.replace(model, layers=layers + 1), run, ParallelDims()) > one
    assert _seconds(model, msgspec.structs.replace(run, sequence_length=2 * length), ParallelDims()) > one
    assert _seconds(model, msgspec.structs.replace(run, global_batch=128), ParallelDims()) > one


@pytest.mark.parametrize("recompute", ["full", "op"])
def test_computing_again_costs_time(recompute: str) -> None:
    again = msgspec.structs.replace(RUN, recompute=recompute)
    assert _seconds(DECODER, again, ParallelDims()) > _seconds(DECODER, RUN, ParallelDims())


def test_ranks_that_share_the_batch_are_quicker() -> None:
    spread = ParallelDims(dp_shard=8, zero_stage=3, framework="fsdp2")
    assert _seconds(DECODER, RUN, spread) < _seconds(DECODER, RUN, ParallelDims()) / 4


def test_graphs_take_the_waiting_for_the_host_away() -> None:
    small = msgspec.structs.replace(RUN, sequence_length=128, micro_batch=1, stack="megatron")
    graphs = msgspec.structs.replace(small, cuda_graphs=True)
    assert _seconds(DECODER, graphs, ParallelDims()) < 0.5 * _seconds(DECODER, small, ParallelDims())
    large = msgspec.structs.replace(RUN, sequence_length=8192, micro_batch=8)
    assert _seconds(DECODER, msgspec.structs.replace(large, cuda_graphs=True), ParallelDims()) == pytest.approx(
        _seconds(DECODER, large, ParallelDims())
    )


def test_a_step_waits_for_a_loader_that_is_slower() -> None:
    run = msgspec.structs.replace(RUN, sample_seconds=0.05, loader_workers=4)
    # 32 micro-batches of 2 samples: 64 x 50 ms over four workers are 0.8 s.
    assert loading(run, 32.0, 0.5) == pytest.approx(0.3)
    assert loading(run, 32.0, 1.0) == 0.0
    alone = msgspec.structs.replace(run, loader_workers=0)
    assert loading(alone, 32.0, 1.0) == pytest.approx(3.2)
    plain, waits = _seconds(DECODER, RUN, ParallelDims()), _seconds(DECODER, alone, ParallelDims())
    assert waits == pytest.approx(plain + 64 * 0.05)
