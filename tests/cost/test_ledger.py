"""Bytes against figures that were counted elsewhere, and what must hold for every layout."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.catalog.architectures import resolve_model
from preflight.catalog.hardware import resolve_gpu
from preflight.cost.activation_layout import layout_of
from preflight.cost.activations import BlockBytes, block_bytes, selective_bytes
from preflight.cost.fragmentation import reserved_share
from preflight.cost.ledger import Ledger, ledger_of, step_moments
from preflight.cost.logits import loss_bytes
from preflight.cost.memory import estimate_memory
from preflight.cost.optimizers import optimizer_state
from preflight.cost.parameters import count_parameters
from preflight.cost.recipe import recipe_of
from preflight.cost.saved import in_flight
from preflight.cost.workspace import cublas_workspace, workspaces
from preflight.vocabulary.model import ModelSpec
from preflight.vocabulary.run import ParallelDims, RunSpec

GIB, MIB = 1024**3, 1024**2
L2, L3, MIXTRAL, DEEPSEEK = (
    resolve_model(name) for name in ("llama-2-7b", "llama-3-8b", "mixtral-8x7b", "deepseek-v3")
)
RUN = RunSpec(micro_batch=1, sequence_length=4096, precision="bf16", optimizer="adamw", foreach=False)
MEGATRON = msgspec.structs.replace(RUN, stack="megatron", cross_entropy="parallel")
FSDP = ParallelDims(dp_shard=8, zero_stage=3, framework="fsdp2")


def ledger(model: ModelSpec, run: RunSpec, parallel: ParallelDims, stage: int = 0) -> Ledger:
    count, optimizer = count_parameters(model), optimizer_state(run.optimizer or "")
    assert count is not None
    assert optimizer is not None
    return ledger_of(model, run, parallel, resolve_gpu("h100"), count, optimizer, stage)


def block(model: ModelSpec, run: RunSpec = RUN, parallel: ParallelDims = FSDP) -> BlockBytes:
    return block_bytes(model, layout_of(model, run, recipe_of(run, parallel), parallel))


def peak(model: ModelSpec, run: RunSpec = RUN, parallel: ParallelDims = FSDP) -> float:
    found = estimate_memory(model, run, parallel).peak_bytes
    assert found is not None
    return found.mid


class TestFigures:
    """What torch's memory tracker, Transformer Engine's modules and published code count."""

    @pytest.mark.parametrize(("model", "kilobytes"), [(L2, 202), (L3, 230)])
    def test_an_eager_block(self, model: ModelSpec, kilobytes: float) -> None:
        eager = block(model, msgspec.structs.replace(RUN, attention="efficient"))
        assert eager.saved / 1e3 == pytest.approx(kilobytes, rel=0.08)

    def test_a_fused_block_keeps_32_times_the_width(self) -> None:
        assert block(L2, MEGATRON).saved == pytest.approx(32 * L2.hidden, rel=0.01)

    def test_full_recomputation_keeps_the_input_and_per_operator_15_widths(self) -> None:
        assert block(L2).entry == 2 * L2.hidden
        kept = selective_bytes(L2, layout_of(L2, RUN, recipe_of(RUN, FSDP), FSDP))
        assert kept == pytest.approx(15.5 * L2.hidden, rel=0.08)

    def test_per_operator_every_second_product_of_the_block_is_kept(self) -> None:
        kept = selective_bytes(L3, layout_of(L3, RUN, recipe_of(RUN, FSDP), FSDP))
        # Input, attention with its sums, and of q, k, v, o, gate, up, down the first, third, fifth and seventh.
        assert kept == 2 * (4096 + 4096 + 4096 + 1024 + 14336 + 4096) + 4 * 32
        split = msgspec.structs.replace(FSDP, tp=4, sequence_parallel=True)
        assert selective_bytes(L3, layout_of(L3, RUN, recipe_of(RUN, split), split)) == kept / 4

    def test_torch_keeps_a_gathered_stream_and_megatron_does_not(self) -> None:
        split = ParallelDims(tp=8, sequence_parallel=True)
        one = ParallelDims(tp=8)
        compiled = msgspec.structs.replace(RUN, stack="compile")
        less = block(L3, compiled, one).saved - block(L3, compiled, split).saved
        assert less == pytest.approx((2 * 2 * 4096 + 2 * 4) * 7 / 8)  # the inputs of two norms alone
        less = block(L3, MEGATRON, one).saved - block(L3, MEGATRON, split).saved
        assert less == pytest.approx((4 * 2 * 4096 + 2 * 4) * 7 / 8)

    def test_the_loss_over_a_divided_vocabulary_is_written_out(self) -> None:
        split = ParallelDims(tp=8, sequence_parallel=True, framework="fsdp2")
        run = msgspec.structs.replace(RUN, cross_entropy="parallel", logits_released=True)
        found = loss_bytes(L3, run, split, recipe_of(run, split), 4096.0)
        assert found.backward == 16 * 4096 * 128256 / 8

    @pytest.mark.parametrize(("model", "gathered"), [(L3, 2.36), (L2, 0.87)])
    def test_the_root_group_and_the_last_block_stay_gathered(self, model: ModelSpec, gathered: float) -> None:
        assert ledger(model, RUN, FSDP).states.gathered_forward / GIB == pytest.approx(gathered, abs=0.01)

    def test_a_blocks_gradients_are_reduced_in_fp32(self) -> None:
        states = ledger(L2, RUN, FSDP).states
        two_blocks = 2 * 2 * ledger(L2, RUN, FSDP).share.block
        assert (states.gathered_backward - two_blocks) / GIB == pytest.approx(0.75, abs=0.01)

    def test_the_eager_loss_takes_12_bytes_per_logit_once_the_logits_are_released(self) -> None:
        run = msgspec.structs.replace(RUN, logits_released=True)
        assert loss_bytes(L3, run, FSDP, recipe_of(run, FSDP), 16384).backward / GIB == pytest.approx(23.5, abs=0.05)

    def test_megatron_takes_18_bytes_a_parameter_or_6_and_12_over_the_ranks(self) -> None:
        for ranks, stage, width in ((1, 0, 18.0), (8, 1, 6 + 12 / 8)):
            parallel = ParallelDims(dp_shard=ranks, zero_stage=stage, framework="megatron")
            found = ledger(L2, MEGATRON, parallel)
            total = found.states.parameters + found.states.gradients + found.states.optimizer
            assert total / found.share.parameters == pytest.approx(width)

    def test_latent_attention_is_counted_exactly(self) -> None:
        count = count_parameters(msgspec.structs.replace(DEEPSEEK, parameters=None))
        assert count is not None
        assert count.total == DEEPSEEK.parameters

    def test_workspaces_of_two_threads_and_of_transformer_engine(self) -> None:
        h100, a100 = resolve_gpu("h100"), resolve_gpu("a100")
        assert workspaces(h100, RUN) == 64 * MIB
        assert workspaces(a100, RUN) == 2 * 8.125 * MIB
        assert workspaces(a100, msgspec.structs.replace(RUN, deterministic=True)) == 64 * MIB
        assert workspaces(h100, MEGATRON) == 96 * MIB
        assert workspaces(h100, MEGATRON, experts=8) == (96 + 4 * 32) * MIB


class TestPipeline:
    """Micro-batches in flight, and layers by stage."""

    @pytest.mark.parametrize(
        ("schedule", "vp", "stage", "held"),
        [
            ("1f1b", 1, 0, 4), ("1f1b", 1, 3, 1), ("gpipe", 1, 3, 16), ("zb1p", 1, 3, 4), ("zb2p", 1, 0, 7),
            ("1f1b", 2, 0, 4 * (1 + 3 / 8)),
        ],
    )  # fmt: skip
    def test_what_a_stage_holds(self, schedule: Any, vp: int, stage: int, held: float) -> None:
        assert in_flight(ParallelDims(pp=4, vp=vp, schedule=schedule), stage, 16) == pytest.approx(held)

    def test_no_stage_holds_more_than_there_are(self) -> None:
        for schedule in ("1f1b", "gpipe", "zb1p", "zb2p"):
            assert in_flight(ParallelDims(pp=8, schedule=schedule), 0, 3) == 3

    @pytest.mark.parametrize(("first", "last"), [(None, None), (6, None), (None, 5), (6, 5)])
    def test_the_stages_hold_all_blocks_together(self, first: int | None, last: int | None) -> None:
        parallel = ParallelDims(pp=4, first_layers=first, last_layers=last, framework="megatron")
        shares = [ledger(L2, MEGATRON, parallel, stage).share for stage in range(4)]
        assert sum(share.layers for share in shares) == pytest.approx(1.0)
        assert sum(share.parameters for share in shares) == pytest.approx(L2.parameters)
        if first is not None:
            assert shares[0].layers * 32 == pytest.approx(first)


class TestOffload:
    """What leaves the device lies on the host."""

    def test_states_move_to_the_host(self) -> None:
        here, there = (
            estimate_memory(L2, msgspec.structs.replace(RUN, offload=kind), FSDP) for kind in ("none", "optimizer")
        )
        assert here.host_bytes == 0
        share = L2.parameters / 8
        assert there.host_bytes == pytest.approx(share * (8 + 4), rel=0.01)  # two moments, and every gradient
        assert there.peak_bytes is not None
        assert here.peak_bytes is not None
        assert there.peak_bytes.mid < here.peak_bytes.mid

    def test_parameters_move_too(self) -> None:
        moved = estimate_memory(L2, msgspec.structs.replace(RUN, offload="parameters"), FSDP)
        assert moved.host_bytes == pytest.approx(L2.parameters / 8 * 16, rel=0.01)

    def test_activations_move(self) -> None:
        moved = estimate_memory(L2, msgspec.structs.replace(RUN, offload="activations"), FSDP)
        assert moved.host_bytes == pytest.approx(block(L2).saved * 32 * 4096, rel=0.05)


class TestEightBits:
    """Transformer Engine's fp8."""

    def test_inputs_of_products_are_kept_in_8_bits(self) -> None:
        eight = msgspec.structs.replace(MEGATRON, precision="fp8")
        hidden, width = float(L2.hidden or 0), float(L2.ffn or 0)
        # Two norms' outputs and the second feed-forward input lose a byte; the projection's input gains an 8-bit form.
        assert block(L2, MEGATRON).saved - block(L2, eight).saved == pytest.approx(2 * hidden + width - hidden)

    def test_weights_of_8_bits_take_less_than_copies(self) -> None:
        parallel = ParallelDims(framework="megatron")
        eight = msgspec.structs.replace(MEGATRON, precision="fp8")
        own = msgspec.structs.replace(eight, fp8_weights=True)
        assert peak(L2, own, parallel) < peak(L2, eight, parallel)


class TestQuantizedWeights:
    """4-bit weights."""

    def test_an_output_matrix_of_16_bits_is_larger(self) -> None:
        run = msgspec.structs.replace(RUN, finetune="qlora", lora_rank=8, precision="pure-bf16", micro_batch=1)
        small = msgspec.structs.replace(run, sequence_length=1)
        quantized = msgspec.structs.replace(small, quantized_head=True)
        one = ParallelDims()
        assert ledger(L3, small, one).states.parameters > ledger(L3, quantized, one).states.parameters
        # but it is unpacked while the loss is computed
        unpacked = 2 * 128256 * 4096
        assert ledger(L3, quantized, one).loss.backward - ledger(L3, small, one).loss.backward == pytest.approx(
            unpacked
        )

    def test_autocast_copies_the_adapters_alone(self) -> None:
        run = msgspec.structs.replace(RUN, finetune="qlora", lora_rank=8, precision="autocast-bf16")
        found = ledger(L3, run, ParallelDims())
        assert found.casts == pytest.approx(2 * found.share.trainable)

    def test_inputs_that_are_kept_cost_memory(self) -> None:
        run = msgspec.structs.replace(RUN, finetune="qlora", lora_rank=8, precision="pure-bf16")
        assert peak(L2, msgspec.structs.replace(run, quantized_inputs=True), ParallelDims()) > peak(
            L2, run, ParallelDims()
        )


MODELS = st.sampled_from([L2, L3, MIXTRAL, DEEPSEEK])
RUNS = st.builds(
    RunSpec,
    micro_batch=st.integers(1, 8),
    sequence_length=st.sampled_from([512, 2048, 8192]),
    precision=st.sampled_from(["fp32", "autocast-bf16", "bf16", "pure-bf16", "fp8"]),
    optimizer=st.sampled_from(["adamw", "sgd", "adamw8bit"]),
    attention=st.sampled_from(["flash", "eager"]),
    recompute=st.sampled_from(["none", "full", "selective", "op"]),
    stack=st.sampled_from(["eager", "compile", "megatron"]),
    cross_entropy=st.sampled_from(["eager", "fused", "chunked", "parallel"]),
    offload=st.sampled_from(["none", "optimizer", "parameters", "activations"]),
    logits_released=st.booleans(),
    expert_imbalance=st.sampled_from([1.0, 2.0]),
)
LAYOUTS = st.builds(
    ParallelDims,
    dp_replicate=st.sampled_from([1, 4]),
    dp_shard=st.sampled_from([1, 8]),
    zero_stage=st.integers(0, 3),
    cp=st.sampled_from([1, 2]),
    tp=st.sampled_from([1, 2, 8]),
    pp=st.sampled_from([1, 2, 4]),
    ep=st.sampled_from([1, 8]),
    sequence_parallel=st.booleans(),
    schedule=st.sampled_from(["1f1b", "gpipe", "zb1p", "zb2p"]),
    framework=st.sampled_from(["fsdp2", "deepspeed", "megatron"]),
)


@settings(max_examples=60, deadline=None)
@given(MODELS, RUNS, LAYOUTS)
def test_memory_never_falls_with_batch_length_or_depth(model: ModelSpec, run: RunSpec, parallel: ParallelDims) -> None:
    here = peak(model, run, parallel)
    assert here <= peak(model, msgspec.structs.replace(run, micro_batch=run.micro_batch + 1), parallel)  # type: ignore[operator]
    assert here <= peak(model, msgspec.structs.replace(run, sequence_length=run.sequence_length * 2), parallel)  # type: ignore[operator]
    deeper = msgspec.structs.replace(model, parameters=None)
    more = msgspec.structs.replace(deeper, layers=2 * (model.layers or 0))
    assert peak(deeper, run, parallel) <= peak(more, run, parallel)


@settings(max_examples=60, deadline=None)
@given(MODELS, RUNS, LAYOUTS)
def test_sharding_never_adds_model_state(model: ModelSpec, run: RunSpec, parallel: ParallelDims) -> None:
    def states(layout: ParallelDims) -> float:
        found = ledger(model, run, layout).states
        return found.parameters + found.gradients + found.optimizer

    here = states(parallel)
    for change in ({"dp_shard": parallel.dp_shard * 2}, {"ep": parallel.ep * 2}, {"tp": parallel.tp * 2}):
        assert states(msgspec.structs.replace(parallel, **change)) <= here * (1 + 1e-9), change
    if parallel.zero_stage < 3:
        assert states(msgspec.structs.replace(parallel, zero_stage=parallel.zero_stage + 1)) <= here * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(MODELS, RUNS, LAYOUTS)
def test_the_peak_is_the_sum_of_its_parts(model: ModelSpec, run: RunSpec, parallel: ParallelDims) -> None:
    memory = estimate_memory(model, run, parallel, resolve_gpu("h100"))
    assert memory.breakdown is not None
    assert memory.peak_bytes is not None
    assert memory.breakdown.allocated == pytest.approx(memory.peak_bytes.mid)
    moments = step_moments(ledger(model, run, parallel), 1)
    assert all(getattr(moment.parts, name) >= 0 for moment in moments for name in moment.parts.__struct_fields__)


@settings(max_examples=40, deadline=None)
@given(RUNS, LAYOUTS)
def test_unbalanced_experts_and_gathered_weights_cost_memory(run: RunSpec, parallel: ParallelDims) -> None:
    worse = msgspec.structs.replace(run, expert_imbalance=run.expert_imbalance * 1.5)
    assert peak(MIXTRAL, run, parallel) <= peak(MIXTRAL, worse, parallel)
    dropping = msgspec.structs.replace(worse, expert_capacity=1.0)
    assert peak(MIXTRAL, dropping, parallel) <= peak(MIXTRAL, worse, parallel)
    assert peak(MIXTRAL, run, parallel) <= peak(MIXTRAL, run, msgspec.structs.replace(parallel, reshard=False))


def test_a_workspace_of_blackwell_is_that_of_its_version() -> None:
    gb200, h100 = resolve_gpu("GB200"), resolve_gpu("H100")
    assert cublas_workspace(gb200) == cublas_workspace(h100, "2.10") == 32 * MIB
    assert cublas_workspace(gb200, "2.12") == 32 * MIB
    assert cublas_workspace(gb200, "2.11.0a0") == 8.125 * MIB
    old = msgspec.structs.replace(MEGATRON, torch="2.11")
    assert workspaces(gb200, MEGATRON) - workspaces(gb200, old) == 2 * (32 - 8.125) * MIB


def test_experts_without_a_capacity_leave_more_holes() -> None:
    capped = msgspec.structs.replace(RUN, expert_capacity=1.25)
    assert reserved_share(RUN, 8).mid > reserved_share(RUN).mid == reserved_share(capped, 8).mid


def test_megatron_without_its_kernel_keeps_the_softmax_in_fp32() -> None:
    run = msgspec.structs.replace(MEGATRON, attention="eager")
    plain = msgspec.structs.replace(run, attention="math")
    parallel, layers, heads = ParallelDims(framework="megatron"), L2.layers or 0, L2.heads or 0
    more = ledger(L2, plain, parallel).activations.saved - ledger(L2, run, parallel).activations.saved
    assert more == 4.0 * layers * heads * 4096**2


def test_a_pooler_is_on_every_tensor_parallel_rank() -> None:
    bert = msgspec.structs.replace(
        resolve_model("bert-large-uncased"), head="mlm", parameters=None, base_parameters=None
    )
    pooled = msgspec.structs.replace(bert, pooler=True)
    run = msgspec.structs.replace(MEGATRON, sequence_length=512)
    for tp in (1, 2, 8):
        split = ParallelDims(tp=tp, framework="megatron")
        more = ledger(pooled, run, split).share.parameters - ledger(bert, run, split).share.parameters
        assert more == pytest.approx(1024 * 1024 + 1024 + 2 * 1025)


def test_torchao_unpacks_the_largest_parameter_for_its_step() -> None:
    quantised = {
        name: ledger(L3, msgspec.structs.replace(RUN, precision="pure-bf16", optimizer=name), ParallelDims()).states
        for name in ("torchao.optim.AdamW8bit", "bnb.optim.AdamW8bit")
    }
    assert quantised["bnb.optim.AdamW8bit"].temporaries == 0
    assert quantised["torchao.optim.AdamW8bit"].temporaries == 12 * 128256 * 4096


def test_the_pool_of_a_graph_is_there_while_the_optimizer_steps() -> None:
    plain = ledger(L3, MEGATRON, ParallelDims(framework="megatron"))
    graphs = ledger(L3, msgspec.structs.replace(MEGATRON, cuda_graphs=True), ParallelDims(framework="megatron"))
    (*passes, optimizer), (*same, stays) = step_moments(plain, 1), step_moments(graphs, 1)
    assert passes == same
    assert stays.parts.activations >= graphs.activations.saved > optimizer.parts.activations
    assert stays.parts.total > optimizer.parts.total


@pytest.mark.parametrize("name", ["torchao.optim.AdamW8bit", "bnb.optim.AdamW8bit", "adamw"])
def test_gradients_are_sharded_whatever_the_optimizer(name: str) -> None:
    run = msgspec.structs.replace(RUN, precision="pure-bf16", optimizer=name)
    whole, sharded = (ledger(L3, run, parallel).states.gradients for parallel in (ParallelDims(), FSDP))
    assert sharded == pytest.approx(whole / 8)


@pytest.mark.parametrize(
    ("name", "bytes_each"),
    [
        ("adamw_torch_fused", 8.0),
        ("torch.optim.AdamW", 8.0),
        ("adamw_apex_fused", 8.0),
        ("adamw_bnb_8bit", 2 * (1 + 4 / 256)),
        ("bitsandbytes.optim.Lion8bit", 1 + 4 / 256),
        ("ademamix_8bit", 3 * (1 + 4 / 256)),
        ("rmsprop_bnb_8bit", 1 + 4 / 256),
        ("lion_32bit", 4.0),
        ("paged_adamw_32bit", 0.0),
        ("paged_lion_8bit", 0.0),
        ("PagedAdamW8bit", 0.0),
    ],
)
def test_an_optimizer_has_the_same_states_by_each_of_its_names(name: str, bytes_each: float) -> None:
    run = msgspec.structs.replace(RUN, precision="fp32", optimizer=name)
    states = ledger(L3, run, ParallelDims()).states
    assert states.optimizer == pytest.approx(bytes_each * L3.parameters)  # type: ignore[operator]


def test_both_towers_send_their_activations_to_the_host() -> None:
    pair = resolve_model("openai/clip-vit-base-patch32")
    run = msgspec.structs.replace(RUN, micro_batch=8, sequence_length=77, offload="activations")
    both = ledger(pair, run, ParallelDims()).activations.host
    image = ledger(msgspec.structs.replace(pair, text=None, parameters=None), run, ParallelDims()).activations.host
    assert both > image > 0
