from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from preflight.errors import UsageError
from preflight.plan.inputs.document import settings_in
from preflight.plan.inputs.requests import request_from
from preflight.plan.inputs.settings import Settings, said
from preflight.plan.inputs.written import to_yaml
from preflight.plan.request import Request, Wish
from preflight.plan.spread import settled

SIZED = st.sampled_from(
    [
        ("transformer", 7.0), ("transformer_decoder", 0.125), ("transformer_decoder", 70.0), ("transformer_encoder", 0.11),
        ("transformer_encoder", 3.9), ("encoder_decoder", 0.22), ("encoder_decoder", 20.0), ("moe", 47.0), ("moe", 14.0),
        ("vision_transformer", 0.3), ("vision_transformer", 22.0), ("cnn", 0.03), ("diffusion_model", 1.0),
    ]
)  # fmt: skip
NAMED = st.sampled_from(
    [
        "llama-3-8b",
        "gpt2",
        "bert-base-uncased",
        "t5-base",
        "mixtral-8x7b",
        "resnet50",
        "vit-base-patch16-224",
        "gemma-2-2b",
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    told: dict[str, Any] = {}
    if draw(st.booleans()):
        told["model.type"], told["model.size_billions"] = draw(SIZED)
    else:
        told["model.name"] = draw(NAMED)
    choices: dict[str, st.SearchStrategy[Any]] = {
        "run.precision": st.sampled_from(["bf16", "fp32", "autocast-bf16", "fp16", "fp8", "pure-bf16"]),
        "run.optimizer": st.sampled_from(["adamw", "sgd", "lion", "adamw8bit", "paged_adamw", "adafactor"]),
        "run.recompute": st.sampled_from(["none", "full", "selective", "op", "full:2"]),
        "run.cross_entropy": st.sampled_from(["eager", "fused", "chunked"]),
        "run.offload": st.sampled_from(["none", "optimizer"]),
        "run.finetune": st.sampled_from(["full", "lora", "qlora"]),
        "run.tokens": st.floats(1e6, 1e13),
        "run.clipping": st.booleans(),
        "run.optimizer_momentum": st.floats(0, 0.99),
        "model.sequence_length": st.sampled_from([128, 512]),
        "hardware.gpu_type": st.sampled_from(["h100", "A100 40GB", "MI300X", "rtx_4090", "gb200"]),
        "hardware.gpu_memory": st.sampled_from([24, 80, 192]),
        "cluster.num_gpus": st.sampled_from([1, 2, 4, 8, 16, 64]),
        "cluster.interconnect": st.sampled_from(["pcie_5", "nvlink_4"]),
        "cluster.inter_node": st.sampled_from(["ib_ndr", "roce_400"]),
        "cluster.nics_per_node": st.sampled_from([1, 4]),
        "distribution.strategy": st.sampled_from(
            [
                "data_parallel",
                "tensor_parallel",
                "pipeline_parallel",
                "hybrid",
                "fsdp",
                "hsdp",
                "zero1",
                "zero2",
                "zero3",
            ]
        ),
        "distribution.tensor_parallel": st.sampled_from([1, 2, 4]),
        "distribution.pipeline_parallel": st.sampled_from([1, 2]),
        "distribution.zero_stage": st.integers(0, 3),
        "distribution.sequence_parallel": st.booleans(),
        "distribution.schedule": st.sampled_from(["1f1b", "gpipe", "zb1p"]),
        "distribution.reshard": st.booleans(),
        "run.fp8_weights": st.booleans(),
        "run.expert_imbalance": st.floats(1, 3),
        "run.expert_grouping": st.booleans(),
        "run.gradients_stay": st.booleans(),
        "run.torch": st.sampled_from(["2.4", "2.10"]),
        "cluster.host_memory": st.sampled_from([512, 2000]),
    }
    for path in draw(st.lists(st.sampled_from(sorted(choices)), unique=True)):
        told[path] = draw(choices[path])
    told["model.batch_size"] = draw(st.sampled_from([64, 128, 192]))
    try:
        return request_from(Settings({path: said(path, value, "drawn") for path, value in told.items()}))
    except UsageError:
        assume(False)
        raise


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(requests())
def test_what_is_written_is_read_back_as_the_same_request(request: Request) -> None:
    again = request_from(settings_in(to_yaml(request)))
    assert (again.model, again.run, again.cluster) == (request.model, request.run, request.cluster)
    assert (again.tokens, again.steps, again.wish) == (request.tokens, request.steps, request.wish)
    assert not [said for said in again.assumptions if "nodes of" not in said and "one sample" not in said]
    try:
        decided = settled(request)
    except UsageError:
        return
    twice = settled(request_from(settings_in(to_yaml(decided))))
    assert (twice.parallel, twice.run) == (decided.parallel, decided.run)


def test_every_field_of_run_and_layout_can_be_said() -> None:
    from preflight.plan.inputs.form import KEYS
    from preflight.vocabulary.run import RunSpec

    unsaid = {name for name in RunSpec.__struct_fields__ if f"run.{name}" not in KEYS and f"model.{name}" not in KEYS}
    inside = {"recompute_layers", "lora_rank", "lora_targets", "lora_dropout"}  # full:12, and the table of adapters
    inside |= {"double_quantization", "quantized_head", "quantized_inputs", "unpacked_copies"}
    # What is only ever read from a script: lengths and memory that change from step to step, how it evaluates.
    inside |= {"length_schedule", "kept_bytes_per_step"}
    inside |= {"evaluation_without_no_grad", "evaluation_keeps_last", "evaluation_precision", "evaluation_recomputes"}
    inside |= {"activation_factor", "held_share"}  # what a file of --calibration says
    assert unsaid == inside
    assert {f"distribution.{name}" for name in Wish.__struct_fields__} <= set(KEYS)


def test_what_losses_are_given_may_be_nothing_or_a_fraction() -> None:
    table = "parameters: 33.6e6, activation_elements: 12288, entropy_elements: 0, compared_elements: 4096.5"
    model = request_from(settings_in(f"model: {{architecture: {{{table}}}, batch_size: 8}}")).model
    assert (model.entropy_elements, model.compared_elements) == (0, 4096.5)


def test_what_the_form_cannot_say_is_refused() -> None:
    request = request_from(settings_in("model: {name: clip-vit-base-patch32, batch_size: 8}"))
    assert "name: clip-vit-base-patch32" in to_yaml(request)
    import msgspec

    renamed = msgspec.structs.replace(request, model=msgspec.structs.replace(request.model, name=None))
    with pytest.raises(UsageError, match="two towers"):
        to_yaml(renamed)
