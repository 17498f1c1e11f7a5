"""Parts of a step that only some runs have: experts, frozen weights, an optimizer on the host."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from preflight.catalog.architectures import resolve_model
from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.cost.flops import flops_per_sample
from preflight.cost.ledger import ledger_of
from preflight.cost.machine import machine_of
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.stage_time import embedding_time
from preflight.cost.step import step_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec
from preflight.vocabulary.step import StepBreakdown

RUN = RunSpec(micro_batch=4, global_batch=64, sequence_length=4096, precision="bf16", optimizer="adamw", foreach=False)


def step(model: ModelSpec, run: RunSpec, parallel: ParallelDims, gpus: int = 8) -> StepBreakdown:
    gpu = resolve_gpu("H100")
    cluster = Cluster(gpu=gpu, num_gpus=gpus, intra=load_link("nvlink_4"), inter=load_link("ib_ndr"))
    machine, count, optimizer = machine_of(cluster, run), count_parameters(model), optimizer_state("adamw")
    assert machine is not None
    assert count is not None
    assert optimizer is not None
    first = ledger_of(model, run, parallel, gpu, count, optimizer, 0)
    last = ledger_of(model, run, parallel, gpu, count, optimizer, parallel.pp - 1)
    return step_of(model, run, parallel, machine, first, last)


@pytest.mark.parametrize("over", [1, 2, 4, 8])
def test_experts_on_more_ranks_do_the_same_work(over: int) -> None:
    """Each rank sends its tokens to others and gets as many back: arithmetic does not grow with the ranks."""
    model = resolve_model("mixtral-8x7b")
    run = msgspec.structs.replace(RUN, stack="megatron")
    spent = step(model, run, ParallelDims(dp_shard=8, zero_stage=1, ep=over, framework="megatron"))
    flops = flops_per_sample(model, 4096)
    assert flops is not None
    rate = flops.model * 64 / 8 / spent.compute / 989e12
    assert 0.3 < rate < 0.75


def test_frozen_matrices_have_no_gradient_to_compute() -> None:
    model = resolve_model("llama-3-8b")
    parallel = ParallelDims(dp_replicate=8, framework="ddp")
    full = step(model, RUN, parallel)
    lora = step(model, msgspec.structs.replace(RUN, finetune="lora", lora_rank=16), parallel)
    # Forward, gradients of inputs, gradients of weights: two of three products are left, and all of the attention.
    assert 0.6 < lora.compute / full.compute < 0.9
    packed = step(model, msgspec.structs.replace(RUN, finetune="qlora", lora_rank=16), parallel)
    assert lora.compute < packed.compute < full.compute


def test_an_optimizer_on_the_host_takes_its_processor_and_the_slot() -> None:
    """ZeRO-Offload, table 4: about a quarter of a second for each billion parameters of a node."""
    model: Any = resolve_model("llama-3-8b")
    parallel = ParallelDims(dp_shard=8, zero_stage=2, framework="deepspeed")
    here = step(model, RUN, parallel)
    away = step(model, msgspec.structs.replace(RUN, offload="optimizer"), parallel)
    assert 2.0 < away.optimizer < 2.6
    assert away.optimizer > 5 * here.optimizer


def test_the_output_is_timed_that_the_model_has() -> None:
    bert = ModelSpec(
        family="transformer_encoder", layers=2, hidden=1024, heads=16, ffn=4096, vocab=30522, max_positions=512, head="mlm"
    )  # fmt: skip
    run = msgspec.structs.replace(RUN, micro_batch=256, global_batch=256, sequence_length=512)
    words, classes, nothing = (
        step(msgspec.structs.replace(bert, head=head, classes=2), run, ParallelDims()).compute
        for head in ("mlm", "classification", "none")
    )
    # The output matrix takes 30522 x 1024 FLOP a token, the two blocks 2 x 12 x 1024 x 1024.
    assert words > 1.5 * classes
    assert classes == pytest.approx(nothing, rel=0.01)


def test_a_rank_looks_up_its_own_part_of_a_sequence() -> None:
    model, gpu = resolve_model("llama-3-8b"), resolve_gpu("H100")
    machine = machine_of(Cluster(gpu=gpu, num_gpus=8, intra=load_link("nvlink_4")), RUN)
    count, optimizer = count_parameters(model), optimizer_state("adamw")
    assert machine is not None
    assert count is not None
    assert optimizer is not None
    whole, part = (
        embedding_time(model, RUN, cp, machine, ledger_of(model, RUN, cp, gpu, count, optimizer, 0)).forward
        for cp in (ParallelDims(), ParallelDims(cp=8))
    )
    launches = 4 * machine.coefficients.kernel
    assert part - launches == pytest.approx((whole - launches) / 8)


def test_experts_of_the_width_of_the_layer_move_as_much_as_if_it_were_theirs() -> None:
    mixtral = resolve_model("mixtral-8x7b")
    same = msgspec.structs.replace(mixtral, ffn=mixtral.expert_ffn, expert_ffn=None)
    split = ParallelDims(dp_shard=8, zero_stage=3, framework="fsdp2")
    assert step(same, RUN, split).total == pytest.approx(step(mixtral, RUN, split).total)
