"""Settings: what is written for a framework, read back, is the layout that was planned."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.catalog.hardware import load_link, resolve_gpu
from preflight.plan.choose import chosen_of
from preflight.plan.columns.search import search
from preflight.plan.inputs.command_line import request_of
from preflight.plan.inputs.sizes import decoder_of
from preflight.plan.request import Request
from preflight.plan.settings import Emitter, emitters, settings_of
from preflight.vocabulary.hardware import Cluster
from preflight.vocabulary.memory import MemoryEstimate
from preflight.vocabulary.plan import Candidate
from preflight.vocabulary.run import ParallelDims, RunSpec

pytestmark = pytest.mark.slow

POWERS = st.sampled_from([1, 2, 4])


@st.composite
def planned(draw: st.DrawFn) -> tuple[Request, Candidate]:
    """A layout of any framework with a batch that divides."""
    framework = draw(st.sampled_from([None, "ddp", "fsdp1", "fsdp2", "deepspeed", "megatron"]))
    many = draw(st.booleans())
    tp, pp, cp = (draw(POWERS) if many else 1 for _ in range(3))
    replicate, shard = draw(POWERS), draw(POWERS)
    stage = draw(st.sampled_from([0, 1, 2, 3])) if shard > 1 else 0
    shard = shard if stage else 1
    micro, pieces = draw(POWERS), draw(POWERS)
    parallel = ParallelDims(
        tp=tp, pp=pp, cp=cp, dp_replicate=replicate, dp_shard=shard, zero_stage=stage,
        vp=draw(st.sampled_from([1, 2])) if pp > 1 else 1, sequence_parallel=tp > 1 and draw(st.booleans()),
        framework=framework, reshard=draw(st.booleans()) if stage == 3 else True,
        schedule=draw(st.sampled_from(["1f1b", "gpipe"])) if pp > 1 else "1f1b",
        first_layers=draw(st.sampled_from([None, 6])) if pp > 1 else None,
    )  # fmt: skip
    run = RunSpec(
        micro_batch=micro, global_batch=micro * pieces * replicate * shard, sequence_length=draw(st.sampled_from([512, 4096])),
        precision=draw(st.sampled_from(["fp32", "tf32", "bf16", "fp8", "fp16", "autocast-bf16", "autocast-fp16", "pure-bf16"])),
        optimizer=draw(st.sampled_from(["adamw", "adam", "sgd", "adamw8bit", "paged_adamw", "lion", "adafactor", "sophia"])),
        **draw(RECOMPUTED), **draw(ADAPTED), clipping=draw(st.booleans()), deterministic=draw(st.booleans()),
        offload=draw(st.sampled_from(["none", "optimizer", "parameters", "activations"])),
        attention=draw(st.sampled_from(["flash", "efficient", "math", "cudnn", "eager"])),
        stack=draw(st.sampled_from(["eager", "compile", "megatron", "transformers"])),
        cross_entropy=draw(st.sampled_from(["eager", "fused", "chunked", "parallel"])), cross_entropy_chunks=draw(POWERS),
        gradient_as_bucket_view=draw(st.booleans()), fp8_weights=draw(st.booleans()), tensor_overlap=draw(st.booleans()),
        expert_capacity=draw(st.sampled_from([None, 1.25])),
    )  # fmt: skip
    return request_for(parallel, run), Candidate(parallel=parallel, run=run, memory=MemoryEstimate())


RECOMPUTED = st.sampled_from(
    [
        *({"recompute": kind} for kind in ("none", "full", "selective", "op")),
        {"recompute": "full", "recompute_layers": 8},
    ]
)
ADAPTED = st.sampled_from(
    [
        {}, {}, {"finetune": "lora", "lora_rank": 8, "lora_targets": ("v", "mlp"), "lora_dropout": 0.1},
        {"finetune": "qlora", "lora_rank": 16, "double_quantization": True}, {"finetune": "qlora", "lora_rank": 4, "quantized_head": True},
    ]
)  # fmt: skip


def request_for(parallel: ParallelDims, run: RunSpec) -> Request:
    """A request of a decoder whose cluster holds the layout."""
    gpus = parallel.world_size
    cluster = Cluster(
        gpu=resolve_gpu("H100"), num_gpus=gpus, gpus_per_node=min(gpus, 8), intra=load_link("nvlink_4"),
        inter=load_link("ib_ndr") if gpus > 8 else None,
    )  # fmt: skip
    return Request(model=decoder_of(7.0), run=run, cluster=cluster, parallel=parallel)


@pytest.mark.parametrize("emitter", emitters(), ids=lambda emitter: emitter.name)
@settings(max_examples=300, deadline=None)
@given(case=planned())
def test_settings_read_back_are_the_plan(emitter: Emitter, case: tuple[Request, Candidate]) -> None:
    request, candidate = case
    text = emitter.settings(request, candidate)
    if text is None:
        return
    again = emitter.read(text)
    told = {name: value for name, value in again["run"].items() if name not in emitter.aside}
    parallel = msgspec.structs.replace(candidate.parallel, **again["parallel"])
    run = msgspec.structs.replace(candidate.run, **told)
    assert parallel == candidate.parallel
    assert plain(run) == plain(candidate.run)
    # What the text does not say at all is not what makes the two equal.
    assert {"dp_shard", "dp_replicate"} <= set(again["parallel"])


def plain(run: RunSpec) -> RunSpec:
    """A run without what two spellings of it differ in."""
    return msgspec.structs.replace(
        run,
        optimizer=(run.optimizer or "").replace("_", ""),
        stack="eager" if run.stack == "transformers" else run.stack,
    )


@settings(max_examples=300, deadline=None)
@given(case=planned())
def test_every_framework_has_settings_or_a_reason(case: tuple[Request, Candidate]) -> None:
    texts, reasons = settings_of(*case)
    assert {*texts, *reasons} == {emitter.name for emitter in emitters()}
    assert not set(texts) & set(reasons)
    assert all(reason and "None" not in reason for reason in reasons.values())


@pytest.mark.parametrize(
    ("parallel", "run", "names"),
    [
        ({"dp_shard": 8, "zero_stage": 3, "framework": "fsdp2"}, {"offload": "parameters", "recompute": "full", "recompute_layers": 12}, {"torchrun_fsdp2"}),
        ({"dp_shard": 8, "zero_stage": 3, "framework": "fsdp2"}, {"recompute": "full", "recompute_layers": 16}, {"torchrun_fsdp2", "torchtitan"}),
        ({"dp_shard": 8, "zero_stage": 2, "framework": "fsdp2"}, {"cross_entropy": "fused", "stack": "compile"}, {"torchrun_fsdp2"}),
        ({"dp_shard": 8, "zero_stage": 3, "framework": "fsdp2"}, {"recompute": "op", "cross_entropy": "chunked"}, {"torchrun_fsdp2"}),
        ({"dp_shard": 8, "zero_stage": 3, "framework": "fsdp2"}, {"optimizer": "adamw8bit", "precision": "bf16"}, {"torchrun_fsdp2", "accelerate"}),
        ({"dp_shard": 2, "dp_replicate": 4, "zero_stage": 3, "framework": "fsdp2"}, {}, {"torchrun_fsdp2", "accelerate", "torchtitan"}),
        ({"dp_shard": 2, "tp": 4, "zero_stage": 3, "framework": "fsdp2", "sequence_parallel": True}, {"cross_entropy": "parallel"}, {"torchtitan", "torchrun_fsdp2"}),
        ({"dp_shard": 2, "cp": 2, "pp": 2, "vp": 2, "zero_stage": 3, "framework": "fsdp2"}, {"cross_entropy": "fused"}, {"torchrun_fsdp2"}),
        ({"dp_shard": 8, "zero_stage": 2, "framework": "deepspeed"}, {"offload": "optimizer"}, {"deepspeed", "deepspeed_code"}),
        ({"dp_shard": 8, "zero_stage": 3, "framework": "deepspeed"}, {"offload": "parameters", "cross_entropy": "fused"}, {"deepspeed_code"}),
        ({"dp_shard": 2, "pp": 4, "zero_stage": 1, "framework": "deepspeed"}, {"recompute": "full"}, {"deepspeed_code"}),
        ({"dp_shard": 8, "zero_stage": 1, "framework": "megatron"}, {"offload": "optimizer", "stack": "megatron"}, {"megatron"}),
        ({"dp_shard": 2, "dp_replicate": 4, "zero_stage": 1, "framework": "megatron"}, {"stack": "megatron"}, {"megatron"}),
        ({"dp_replicate": 8, "framework": "ddp"}, {"precision": "autocast-bf16", "finetune": "lora", "lora_rank": 8}, {"torchrun_fsdp2", "accelerate"}),
    ],
)  # fmt: skip
def test_layouts_have_the_settings_that_can_say_them(
    parallel: dict[str, object], run: dict[str, object], names: set[str]
) -> None:
    dims = ParallelDims(**parallel)  # type: ignore[arg-type]
    usual: dict[str, object] = {"precision": "bf16", "optimizer": "adamw", **run}
    spec = RunSpec(micro_batch=1, global_batch=16, sequence_length=2048, **usual)  # type: ignore[arg-type]
    texts, reasons = settings_of(request_for(dims, spec), Candidate(parallel=dims, run=spec, memory=MemoryEstimate()))
    assert set(texts) == {*names, "preflight"}, reasons


CODED = [emitter for emitter in emitters() if emitter.name in ("torchrun_fsdp2", "deepspeed_code")]


@pytest.mark.parametrize("emitter", CODED, ids=lambda emitter: emitter.name)
def test_code_that_is_shown_can_be_parsed(emitter: Emitter) -> None:
    import ast

    frameworks = {"torchrun_fsdp2": ("fsdp2", 3), "deepspeed_code": ("deepspeed", 3)}
    framework, stage = frameworks[emitter.name]
    for run in (
        {}, {"recompute": "op", "cross_entropy": "chunked"}, {"recompute": "full", "recompute_layers": 3, "stack": "compile"},
        {"finetune": "qlora", "lora_rank": 4, "offload": "parameters"}, {"optimizer": "lion", "cross_entropy": "fused", "clipping": True},
    ):  # fmt: skip
        dims = ParallelDims(dp_shard=8, zero_stage=stage, framework=framework)
        usual: dict[str, object] = {"precision": "bf16", "optimizer": "adamw", **run}
        spec = RunSpec(micro_batch=1, global_batch=16, sequence_length=2048, **usual)  # type: ignore[arg-type]
        text = emitter.settings(request_for(dims, spec), Candidate(parallel=dims, run=spec, memory=MemoryEstimate()))
        assert text is not None
        ast.parse(text)


def test_what_a_framework_cannot_run_has_a_reason() -> None:
    parallel = ParallelDims(tp=8, framework="megatron")
    run = RunSpec(
        micro_batch=1, global_batch=8, sequence_length=2048, precision="bf16", optimizer="adamw", stack="megatron"
    )
    request = request_for(parallel, run)
    texts, reasons = settings_of(request, Candidate(parallel=parallel, run=run, memory=MemoryEstimate()))
    assert set(texts) == {"megatron", "preflight"}
    assert "no tensor, context or expert parallelism" in reasons["deepspeed"]
    assert "replicated or fully sharded data parallelism" in reasons["accelerate"]
    assert "megatron" in reasons["torchtitan"]


def _for_megatron(**model: object) -> tuple[dict[str, str], dict[str, str]]:
    parallel = ParallelDims(dp_replicate=8, framework="megatron")
    run = RunSpec(
        micro_batch=1, global_batch=8, sequence_length=2048, precision="bf16", optimizer="adamw", stack="megatron"
    )
    request = request_for(parallel, run)
    request = msgspec.structs.replace(request, model=msgspec.structs.replace(request.model, **model))
    return settings_of(request, Candidate(parallel=parallel, run=run, memory=MemoryEstimate()))


def test_megatron_is_told_the_sizes_of_experts_and_of_a_decoder() -> None:
    texts, _ = _for_megatron(
        family="moe", experts=64, experts_per_token=6, expert_ffn=1408, shared_experts=2, ffn=10944, qk_norm=True
    )
    for part in (
        "--moe-ffn-hidden-size 1408",
        "--moe-shared-expert-intermediate-size 2816",
        "--qk-layernorm",
    ):
        assert part in texts["megatron"]
    assert "--decoder-seq-length 2048" in _for_megatron(family="encoder_decoder")[0]["megatron"]


@pytest.mark.parametrize(
    "model",
    [
        {"kv_lora_rank": 512},
        {"family": "moe", "experts": 8, "experts_per_token": 2, "dense_layers": 1},
        {"family": "encoder_decoder", "decoder_ffn": 77},
        {"parallel_blocks": True},
        {"norms_per_block": 4},
        {"sliding_window": 4096},
        {"shared_layers": True},
    ],
)
def test_a_model_that_the_arguments_do_not_describe_gets_none(model: dict[str, object]) -> None:
    texts, reasons = _for_megatron(**model)
    assert "megatron" not in texts
    assert "not written here" in reasons["megatron"]


def test_megatrons_refused_loss_has_a_reason_and_the_others_are_named() -> None:
    parallel = ParallelDims(tp=8, framework="megatron")
    for loss in ("eager", "parallel", "fused"):
        run = RunSpec(
            micro_batch=1, global_batch=8, sequence_length=2048, precision="bf16", optimizer="adamw", stack="megatron",
            cross_entropy=loss,  # type: ignore[arg-type]
        )  # fmt: skip
        candidate = Candidate(parallel=parallel, run=run, memory=MemoryEstimate())
        texts, reasons = settings_of(request_for(parallel, run), candidate)
        if loss == "fused":
            assert "fused loss" in reasons["megatron"]
        else:
            assert ("--cross-entropy-fusion-impl native" in texts["megatron"]) == (loss == "eager")


def test_a_schedule_that_other_forms_do_not_say_is_left_to_our_own() -> None:
    parallel = ParallelDims(pp=8, schedule="gpipe", framework="megatron")
    run = RunSpec(
        micro_batch=1, global_batch=8, sequence_length=2048, precision="bf16", optimizer="adamw", stack="megatron"
    )
    request = request_for(parallel, run)
    candidate = Candidate(parallel=parallel, run=run, memory=MemoryEstimate())
    texts, reasons = settings_of(request, candidate)
    assert list(texts) == ["preflight"]
    assert reasons["megatron"] == "its form has no place for schedule gpipe"
    usual = msgspec.structs.replace(candidate, parallel=msgspec.structs.replace(parallel, schedule="1f1b"))
    assert "megatron" in settings_of(request, usual)[0]


@pytest.mark.parametrize(
    "words",
    [
        ("7", "64", "--gpus", "8"),
        ("13", "32", "--gpus", "4", "--gpu", "a100-40gb"),
        ("moe", "14", "32", "--gpus", "8"),
        ("vision_transformer", "0.3", "64", "--gpus", "4"),
        ("transformer_encoder", "0.34", "64", "--gpus", "4"),
        ("7", "16", "--gpus", "4", "--gpu", "rtx4090"),
        ("7", "16", "--gpus", "4", "--finetune", "lora"),
    ],
    ids=" ".join,
)
def test_whatever_a_search_finds_can_be_run_by_somebody(words: tuple[str, ...]) -> None:
    options = {"--gpus": "cluster__num_gpus", "--gpu": "hardware__gpu_type", "--finetune": "run__finetune"}
    first = words.index("--gpus")
    given = {options[words[at]]: words[at + 1] for at in range(first, len(words), 2)}
    request = request_of(words[:first], {**given, "analysis__search": True})
    chosen = chosen_of(request, search(request))
    assert chosen.best
    for one in (*chosen.best, *chosen.pareto):
        texts, reasons = settings_of(msgspec.structs.replace(request, parallel=one.parallel, run=one.run), one)
        assert len(texts) > 1, (one.parallel, one.run, reasons)
