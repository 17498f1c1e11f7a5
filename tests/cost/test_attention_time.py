"""Seconds of attention against published rates, and what a ring of ranks and hidden collectives may cost."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.attention_time import attention_time, mean_keys
from preflight.cost.kernels import flash_seconds, matmul_seconds
from preflight.cost.ledger import ledger_of
from preflight.cost.machine import Machine, machine_of
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.recipe import recipe_of
from preflight.cost.step import step_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown

DECODER = ModelSpec(
    family="transformer_decoder", layers=16, hidden=4096, heads=32, kv_heads=8, ffn=14336, gated=True, norm="rmsnorm",
    vocab=32000, tied_embeddings=False, learned_positions=False, bias=False,
)  # fmt: skip
RUN = RunSpec(
    micro_batch=1, global_batch=16, sequence_length=8192, precision="bf16", optimizer="adamw", stack="megatron",
    cross_entropy="parallel",
)  # fmt: skip


def machine(gpu: str = "H100", run: RunSpec = RUN) -> Machine:
    cluster = Cluster(gpu=resolve_gpu(gpu), num_gpus=64, intra=load_link("nvlink_4"), inter=load_link("ib_ndr"))
    found = machine_of(cluster, run)
    assert found is not None
    return found


def step(run: RunSpec, parallel: ParallelDims, gpu: str = "H100") -> StepBreakdown:
    count, optimizer = count_parameters(DECODER), optimizer_state("adamw")
    assert count is not None
    assert optimizer is not None
    ledgers = [
        ledger_of(DECODER, run, parallel, resolve_gpu(gpu), count, optimizer, stage) for stage in (0, parallel.pp - 1)
    ]
    return step_of(DECODER, run, parallel, machine(gpu, run), ledgers[0], ledgers[1])


@pytest.mark.parametrize(
    "rates",
    [(329, 390, 434, 458, 471, 477), (430, 517, 566, 590, 614, 621)],
    ids=["FlashAttention-2", "FlashAttention-3"],
)
def test_the_rate_of_flash_attention_grows_with_the_keys_as_published(rates: tuple[float, ...]) -> None:
    # 16,384 tokens with 16 heads of 128 on an H100, in sequences of 512, 1k ... 16k, nothing masked.
    given = machine()
    rows = 16384.0 * 16
    seconds = [
        flash_seconds(given, 4.0 * rows * keys * 128, rows, keys) - given.coefficients.kernel
        for keys in (512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
    ]
    own = [512.0 * 2**at / value for at, value in enumerate(seconds)]
    for mine, published in zip(own, rates, strict=True):
        assert mine / own[-1] == pytest.approx(published / rates[-1], rel=0.05)


@given(ranks=st.sampled_from([2, 4, 8]), length=st.sampled_from([2048, 8192, 65536]))
def test_a_ring_takes_longer_than_its_share(ranks: int, length: int) -> None:
    recipe, given = recipe_of(RUN, ParallelDims()), machine()
    whole = attention_time(DECODER, RUN, recipe, given, float(length), float(length), 1.0)
    part = attention_time(DECODER, RUN, recipe, given, length / ranks, float(length), 1.0, float(ranks))
    assert part.forward > whole.forward / ranks
    assert part.backward > whole.backward / ranks
    assert part.piece < part.forward


def test_a_ring_pays_most_where_chunks_are_short() -> None:
    recipe, given = recipe_of(RUN, ParallelDims()), machine()

    def over(length: float) -> float:
        whole = attention_time(DECODER, RUN, recipe, given, length, length, 1.0).forward
        return attention_time(DECODER, RUN, recipe, given, length / 4, length, 1.0, 4.0).forward / (whole / 4)

    assert over(2048.0) > 1.3 > 1.1 > over(131072.0)


def test_keys_that_a_query_sees() -> None:
    windowed = msgspec.structs.replace(DECODER, sliding_window=1024)
    assert mean_keys(DECODER, 4096.0, causal=True) == 2048
    assert mean_keys(DECODER, 4096.0, causal=False) == 4096
    # The first 1,024 queries see 512 on average, the other three quarters all of their window.
    assert mean_keys(windowed, 4096.0, causal=True) == 0.25 * 512 + 0.75 * 1024


def test_keys_that_travel_between_nodes_cost_more_than_within_one() -> None:
    inside, across = ParallelDims(cp=8, framework="megatron"), ParallelDims(cp=16, framework="megatron")
    short = msgspec.structs.replace(RUN, sequence_length=16384)
    assert step(short, inside).exposed_communication < step(short, across).exposed_communication


def test_user_buffers_hide_most_of_tensor_parallel_communication() -> None:
    parallel = ParallelDims(tp=8, sequence_parallel=True, framework="megatron")
    plain, hidden = step(RUN, parallel), step(msgspec.structs.replace(RUN, tensor_overlap=True), parallel)
    assert 0 < hidden.exposed_communication < plain.exposed_communication
    assert hidden.compute == pytest.approx(plain.compute)
    whole = msgspec.structs.replace(parallel, sequence_parallel=False)
    assert step(msgspec.structs.replace(RUN, tensor_overlap=True), whole) == step(RUN, whole)


def test_products_without_tensor_cores_are_nearer_to_their_rate() -> None:
    plain = machine("V100", msgspec.structs.replace(RUN, precision="fp32"))
    low = machine("V100", msgspec.structs.replace(RUN, precision="fp16"))
    assert low.tensor_cores
    assert not plain.tensor_cores
    work = 2.0 * 512 * 1024 * 1024
    assert work / plain.matmul / matmul_seconds(plain, 512, 1024, 1024, 4.0) > 0.6
    assert work / low.matmul / matmul_seconds(low, 512, 1024, 1024) < 0.5


@pytest.mark.parametrize(("stack", "elements"), [("megatron", 4.0), ("compile", 6.0)])
def test_eight_bits_are_cheaper_to_multiply_and_cost_their_casts(stack: str, elements: float) -> None:
    run = msgspec.structs.replace(RUN, stack=stack)
    parallel = ParallelDims(framework="megatron" if stack == "megatron" else None)
    low = msgspec.structs.replace(run, precision="fp8")
    bf16, fp8 = step(run, parallel), step(low, parallel)
    assert 0.5 * bf16.compute < fp8.compute < 0.8 * bf16.compute
    # Inputs of four products and their outputs' gradients, 16 samples of 8,192 tokens through 16 blocks.
    widths = (4096 + 4096 + 4096 + 14336) + (6144 + 4096 + 2 * 14336 + 4096)
    casts = elements * 16 * 8192 * 16 * widths / machine(run=low).bandwidth
    assert fp8.compute > 0.5 * bf16.compute + 0.8 * casts
