"""What a plan takes for granted suits the GPU and the run: types of numbers, budgets, what the host holds."""

from __future__ import annotations

import pytest

from preflight import make_plan
from preflight.catalog.architectures import load_model
from preflight.catalog.hardware import load_gpu
from preflight.cost.alternatives import alternatives
from preflight.errors import UsageError
from preflight.vocabulary.plan import Plan
from preflight.vocabulary.report import Report
from preflight.vocabulary.run import ParallelDims, RunSpec


def _plan(report: Report) -> Plan:
    assert report.plan is not None
    return report.plan


@pytest.mark.parametrize(("gpu", "precision"), [("T4", "fp16"), ("V100 SXM2 32GB", "fp16"), ("A100 80GB", "bf16")])
def test_the_usual_precision_is_one_that_the_gpu_has(gpu: str, precision: str) -> None:
    plan = _plan(make_plan("gpt2", 8, gpu=gpu, sequence_length=512))
    assert plan.chosen is not None
    assert plan.chosen.run.precision == precision
    assert plan.chosen.step is not None
    told = [a for a in plan.assumptions if a.startswith("precision")]
    assert [precision in a for a in told] == [True]
    assert ("has no bfloat16" in told[0]) is (precision == "fp16")


def test_a_type_without_a_rate_has_no_time() -> None:
    report = make_plan("gpt2", 8, gpu="T4", sequence_length=512, precision="bf16")
    assert report.step is None
    assert any("no rate of bf16 products for the NVIDIA T4" in note for note in report.notes)
    assert report.memory is not None
    assert report.memory.peak_bytes is not None


def test_products_of_eight_bits_need_a_gpu_that_has_them() -> None:
    with pytest.raises(UsageError, match="A100 SXM4 80GB has no products of 8-bit floats") as caught:
        make_plan("gpt2", 8, gpu="A100 80GB", sequence_length=512, precision="fp8")
    assert caught.value.hint == "bf16"
    assert make_plan("gpt2", 8, gpu="H100", sequence_length=512, precision="fp8").step is not None


@pytest.mark.parametrize("kind", ["lora", "qlora"])
def test_adapters_have_no_budget_that_suits_their_network(kind: str) -> None:
    plan = _plan(make_plan("llama-3-8b", 2, gpu="H100", finetune=kind))
    assert plan.duration is not None
    assert plan.duration.steps is None
    assert "adapters" in (plan.duration.reason or "")
    told = _plan(make_plan("llama-3-8b", 2, gpu="H100", finetune=kind, tokens=1e8))
    assert told.duration is not None
    assert told.duration.steps is not None
    whole = _plan(make_plan("gpt2", 2, gpu="H100", sequence_length=512))
    assert whole.duration is not None
    assert whole.duration.steps is not None


def test_weights_of_four_bits_are_not_advised_to_be_multiplied_in_eight() -> None:
    def advised(kind: str) -> bool:
        report = make_plan("llama-3-8b", 2, gpu="H100", finetune=kind, sequence_length=512)
        return any("fp8" in effect.change for effect in _plan(report).sensitivities)

    assert advised("lora")
    assert not advised("qlora")


def test_no_change_is_advised_that_the_host_has_no_room_for() -> None:
    def changes(host_memory: float) -> set[str]:
        report = make_plan(
            "llama-3-8b", 64, gpus=8, gpu="H100", strategy="fsdp", offload="activations", recompute="full",
            sequence_length=8192, host_memory=host_memory,
        )  # fmt: skip
        return {effect.change for effect in _plan(report).sensitivities}

    assert "no recomputation" in changes(20_000)  # GB
    assert "no recomputation" not in changes(500)


@pytest.mark.parametrize(("name", "half"), [("t4", "fp16"), ("a100_80gb_sxm", "bf16")])
def test_autocast_is_advised_in_a_type_that_the_gpu_has(name: str, half: str) -> None:
    plan = _plan(make_plan("gpt2", 8, gpu=name, sequence_length=512, precision="fp32"))
    assert any(f"{half} autocast" in effect.change for effect in plan.sensitivities)
    run = RunSpec(precision="fp32", optimizer="adamw", micro_batch=8, sequence_length=512)
    model = load_model("gpt2")
    told = {one.key: one for one in alternatives(model, run, ParallelDims(), load_gpu(name))}["autocast"]
    assert told.change == f"{half} autocast"
    assert told.run.precision == f"autocast-{half}"
