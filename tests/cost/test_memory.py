"""Properties of the memory estimate."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.cost.alternatives import alternatives
from preflight.cost.memory import estimate_memory, max_micro_batch
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

GIB = 1024**3
LLAMA = ModelSpec(
    family="transformer_decoder", layers=32, hidden=4096, heads=32, ffn=11008, gated=True, vocab=32000,
    activation="silu", tied_embeddings=False, norm="rmsnorm",
)  # fmt: skip
GPT2 = ModelSpec(
    family="transformer_decoder", layers=12, hidden=768, heads=12, ffn=3072, vocab=50257, max_positions=1024,
    learned_positions=True, tied_embeddings=True, norm="layernorm", activation="gelu_new", fused_qkv=True,
)  # fmt: skip
RESNET = ModelSpec(family="cnn", parameters=25_557_032, activation_elements=22.6e6, image_size=224, layers=16)
RUN = RunSpec(micro_batch=4, sequence_length=512, optimizer="adamw")
ONE = ParallelDims()

runs = st.builds(
    RunSpec,
    micro_batch=st.integers(1, 64),
    sequence_length=st.integers(1, 4096),
    image_size=st.integers(32, 512),
    precision=st.sampled_from(["fp32", "autocast-bf16", "autocast-fp16", "pure-bf16", "bf16", "fp8", "fp64"]),
    optimizer=st.sampled_from(["adamw", "sgd", "adafactor", "lion", "adamw8bit", "pagedadamw", "lbfgs", "none"]),
    attention=st.sampled_from(["flash", "efficient", "math", "eager"]),
    recompute=st.sampled_from(["none", "full", "selective", "op"]),
    stack=st.sampled_from(["eager", "compile", "megatron", "transformers"]),
    cross_entropy=st.sampled_from(["eager", "fused", "chunked", "parallel"]),
    finetune=st.sampled_from(["full", "lora", "qlora", "frozen"]),
    lora_rank=st.just(8),
    trainable_parameters=st.just(1_000_000),
    gradient_accumulation=st.integers(1, 8),
    variable_length=st.booleans(),
    evaluation_micro_batch=st.one_of(st.none(), st.integers(1, 64)),
    kept_bytes_per_step=st.sampled_from([0.0, 1e6]),
    steps=st.one_of(st.none(), st.integers(1, 1000)),
)
layouts = st.builds(
    ParallelDims,
    dp_replicate=st.sampled_from([1, 2]),
    dp_shard=st.sampled_from([1, 2, 8]),
    zero_stage=st.integers(0, 3),
    tp=st.sampled_from([1, 2]),
    pp=st.sampled_from([1, 2]),
    framework=st.sampled_from([None, "ddp", "fsdp1", "fsdp2", "deepspeed", "megatron"]),
)


def peak(memory: MemoryEstimate) -> float:
    assert memory.peak_bytes is not None, memory.reason
    return memory.peak_bytes.mid


def with_run(**changes: Any) -> RunSpec:
    return msgspec.structs.replace(RUN, **changes)


@settings(max_examples=150, deadline=None)
@given(model=st.sampled_from([LLAMA, GPT2, RESNET]), run=runs, layout=layouts)
def test_parts_add_up_and_intervals_are_ordered(model: ModelSpec, run: RunSpec, layout: ParallelDims) -> None:
    memory = estimate_memory(model, run, layout, capacity_bytes=24 * GIB)
    assert memory.breakdown is not None
    assert memory.device_bytes is not None
    assert memory.reserved_bytes is not None
    assert memory.breakdown.total == pytest.approx(memory.device_bytes.mid)
    assert memory.breakdown.allocated == pytest.approx(peak(memory))
    assert all(getattr(memory.breakdown, part) >= 0 for part in memory.breakdown.__struct_fields__)
    for interval in (memory.peak_bytes, memory.reserved_bytes, memory.device_bytes):
        assert interval is not None
        assert 0 <= interval.low <= interval.mid <= interval.high
    assert peak(memory) == pytest.approx(max(point.allocated_bytes for point in memory.timeline))
    assert memory.p_fit is not None
    assert 0 <= memory.p_fit <= 1


@settings(max_examples=60, deadline=None)
@given(run=runs, more=st.integers(1, 64))
def test_memory_never_falls_with_the_batch(run: RunSpec, more: int) -> None:
    larger = msgspec.structs.replace(run, micro_batch=(run.micro_batch or 0) + more)
    for model in (LLAMA, RESNET):
        small, large = (estimate_memory(model, each, ONE) for each in (run, larger))
        assert peak(small) <= peak(large) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"micro_batch": None}, "batch"),
        ({"sequence_length": None}, "sequence length"),
        ({"optimizer": None}, "optimizer"),
        ({"optimizer": "my_own"}, "my_own"),
        ({"finetune": "lora"}, "adapters"),
    ],
)
def test_missing_input_gives_no_peak_but_a_reason(change: dict[str, Any], word: str) -> None:
    memory = estimate_memory(LLAMA, with_run(**change), ONE)
    assert memory.peak_bytes is None
    assert memory.reason is not None
    assert word in memory.reason


def test_states_alone_may_decide_what_the_batch_leaves_open() -> None:
    memory = estimate_memory(LLAMA, with_run(micro_batch=None), ONE, capacity_bytes=24 * GIB)
    # 6.74e9 x 16 bytes = 100 GiB
    assert (memory.fits, memory.peak_bytes) == ("no", None)
    assert memory.oom is not None
    assert "GiB" in (memory.oom.arithmetic or "")


def test_first_step_of_adam_needs_less_than_the_second() -> None:
    memory = estimate_memory(GPT2, RUN, ONE)
    forward = {point.step: point.allocated_bytes for point in memory.timeline if point.phase == "forward"}
    assert forward[1] - forward[0] == pytest.approx(8 * 124_439_808)


def test_states_that_appear_in_the_first_step_can_be_what_does_not_fit() -> None:
    run = with_run(micro_batch=1, sequence_length=16)
    memory = estimate_memory(LLAMA, run, ONE, capacity_bytes=70 * GIB)
    # Parameters and gradients are 50 GiB, the two moments another 50.
    assert memory.oom is not None
    assert (memory.oom.phase, memory.oom.step) == ("optimizer", 0)


def test_growth_names_the_step() -> None:
    plain = estimate_memory(GPT2, RUN, ONE, capacity_bytes=24 * GIB)
    assert plain.device_bytes is not None
    assert plain.oom is None
    kept = 64 * 1024**2
    memory = estimate_memory(GPT2, with_run(kept_bytes_per_step=float(kept), steps=100_000), ONE, None, 24 * GIB)
    assert memory.oom is not None
    assert memory.oom.phase == "growth"
    room = 24 * GIB - plain.device_bytes.mid
    assert memory.oom.step == pytest.approx(room / kept, abs=1)
    assert memory.fits == "no"


def test_sharding_divides_the_states() -> None:
    run = with_run(micro_batch=1, sequence_length=16)
    whole = estimate_memory(LLAMA, run, ONE).breakdown
    eighth = estimate_memory(LLAMA, run, ParallelDims(dp_shard=8, zero_stage=3, framework="fsdp2")).breakdown
    assert whole is not None
    assert eighth is not None
    assert eighth.model_parameters == pytest.approx(whole.model_parameters / 8)
    assert eighth.optimizer_states == pytest.approx(whole.optimizer_states / 8)


def test_megatron_takes_eighteen_bytes_a_parameter() -> None:
    run = with_run(precision="bf16", stack="megatron", micro_batch=1, sequence_length=16)
    parts = estimate_memory(LLAMA, run, ParallelDims(framework="megatron")).breakdown
    assert parts is not None
    states = parts.model_parameters + parts.gradients + parts.optimizer_states
    assert states == pytest.approx(18 * 6_738_415_616)


def test_image_area_scales_convolutions() -> None:
    run = RunSpec(micro_batch=32, image_size=224, optimizer="sgd", optimizer_momentum=0.9)
    small = estimate_memory(RESNET, run, ONE).breakdown
    large = estimate_memory(RESNET, msgspec.structs.replace(run, image_size=448), ONE).breakdown
    assert small is not None
    assert large is not None
    assert large.activations == pytest.approx(4 * small.activations)


def test_largest_batch_is_the_largest() -> None:
    capacity = 24 * GIB
    batch = max_micro_batch(GPT2, RUN, ONE, capacity)
    for size, inside in ((batch, True), (batch + 1, False)):
        device = estimate_memory(GPT2, with_run(micro_batch=size), ONE).device_bytes
        assert device is not None
        assert (device.mid <= capacity) is inside
    assert max_micro_batch(LLAMA, RUN, ONE, capacity) == 0


@pytest.mark.parametrize(("batch", "less", "steps"), [(2, 1, 2), (32, 16, 2), (3, 1, 3), (9, 3, 3), (7, 1, 7)])
def test_a_smaller_batch_keeps_the_samples_of_a_step(batch: int, less: int, steps: int) -> None:
    found = {each.key: each for each in alternatives(GPT2, with_run(micro_batch=batch), ONE)}
    run = found["half-batch"].run
    assert (run.micro_batch, run.gradient_accumulation) == (less, steps)


def test_alternatives_are_computed_and_save_memory() -> None:
    run = with_run(micro_batch=32, attention="eager")
    now = estimate_memory(GPT2, run, ONE, capacity_bytes=24 * GIB)
    found = alternatives(GPT2, run, ONE, capacity_bytes=24 * GIB)
    assert {"half-batch", "checkpointing", "autocast", "flash"} <= {each.key for each in found}
    assert all(each.peak_bytes < peak(now) for each in found)
    for each in found:
        assert each.peak_bytes == peak(estimate_memory(GPT2, each.run, each.parallel))
