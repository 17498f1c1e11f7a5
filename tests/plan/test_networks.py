"""Networks that are spread over data alone: search, scaling, drivers and changes of CNNs, U-Nets and diffusion transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preflight.catalog.architectures import resolve_model
from preflight.catalog.hardware import resolve_gpu
from preflight.errors import InputError, UsageError
from preflight.plan.inputs.cluster import cluster_of
from preflight.plan.inputs.model import configured
from preflight.plan.make import plan_report
from preflight.plan.request import Request, Wish
from preflight.plan.spread import settled
from preflight.vocabulary.plan import Plan
from preflight.vocabulary.run import RunSpec

NAMES = ("resnet50", "sd15", "dit-xl-2")


def request_of(name: str, gpus: int = 8, search: bool = False, **more: object) -> Request:
    model = resolve_model(name)
    fields: dict[str, object] = {
        "global_batch": 64, "image_size": model.image_size, "precision": "autocast-bf16", "optimizer": "adamw",
    }  # fmt: skip
    run = RunSpec(**(fields | more))  # type: ignore[arg-type]
    return Request(model=model, run=run, cluster=cluster_of(resolve_gpu("A100 80GB"), gpus), search=search)


def plan_of(request: Request) -> Plan:
    plan = plan_report(request).plan
    assert plan is not None
    return plan


@pytest.mark.parametrize("name", NAMES)
def test_a_search_spreads_over_data_alone_and_beats_the_plain_layout(name: str) -> None:
    found, plain = plan_of(request_of(name, search=True)), plan_of(request_of(name))
    assert found.searched > 10
    assert found.chosen is not None
    assert plain.chosen is not None
    assert found.chosen.step is not None
    assert plain.chosen.step is not None
    chosen = found.chosen.parallel
    assert chosen.tp == chosen.pp == chosen.cp == 1
    assert chosen.framework != "megatron"
    assert found.chosen.run.stack == "eager"
    assert found.chosen.step.seconds.mid <= plain.chosen.step.seconds.mid * 1.001


@pytest.mark.parametrize("name", NAMES)
def test_scaling_drivers_and_changes_are_known(name: str) -> None:
    report = plan_report(request_of(name))
    plan = report.plan
    assert plan is not None
    assert plan.scaling is not None
    assert {point.gpus for point in plan.scaling.strong} >= {8, 16}
    assert plan.drivers
    assert sum(driver.share for driver in plan.drivers) == pytest.approx(1.0, abs=0.15)
    keys = {effect.key for effect in plan.sensitivities}
    assert {"zero", "micro_batch"} <= keys
    assert ("recompute" in keys) == (name != "resnet50")  # nothing says what a counted network keeps of its blocks


def test_what_does_not_fit_is_recomputed_or_sharded() -> None:
    found = plan_of(request_of("sdxl", search=True, global_batch=256, image_size=1024))
    assert found.chosen is not None
    assert found.chosen.memory.fits == "yes"
    assert found.chosen.parallel.zero_stage > 0 or found.chosen.run.recompute == "full"


def test_a_network_cannot_be_divided_by_layers() -> None:
    import msgspec

    asked = msgspec.structs.replace(request_of("sd15"), wish=Wish(tensor_parallel=2, data_parallel=4))
    with pytest.raises(UsageError, match="no equal blocks"):
        settled(asked)


def test_a_configuration_of_diffusers_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    content = {
        "_class_name": "UNet2DConditionModel",
        "cross_attention_dim": 768,
        "sample_size": 64,
        "_diffusers_version": "0.6",
    }
    file.write_text(json.dumps(content), encoding="utf-8")
    for said in (str(file), str(tmp_path)):
        chosen = configured(said)
        assert chosen.model.parameters == 859_520_964
        assert chosen.model.network == resolve_model("sd15").network
    file.write_text(json.dumps({"_class_name": "AutoencoderKL"}), encoding="utf-8")
    with pytest.raises(InputError, match="AutoencoderKL"):
        configured(str(file))


def test_the_size_alone_is_scaled_from_a_network_of_the_catalog() -> None:
    from preflight.plan.inputs.sizes import model_of_size

    small, large = (model_of_size(size, "diffusion_model").model for size in (0.8, 0.9))
    assert small.network is None
    assert small.forward_flops is not None
    assert large.forward_flops is not None
    assert small.activation_elements is not None
    assert small.forward_flops < large.forward_flops
    run = RunSpec(global_batch=8, image_size=small.image_size, precision="bf16", optimizer="adamw")
    plan = plan_of(Request(model=small, run=run, cluster=cluster_of(resolve_gpu("A100 80GB"), 8)))
    assert plan.chosen is not None
    assert plan.chosen.step is not None


def test_settings_name_a_network_of_the_catalog_and_have_no_form_for_another() -> None:
    import msgspec

    from preflight.plan.inputs.written import to_yaml

    request = settled(request_of("sd15"))
    assert "stable-diffusion-v1-5" in to_yaml(request)
    network = request.model.network
    assert network is not None
    other = msgspec.structs.replace(request.model, name=None, network=msgspec.structs.replace(network, text_tokens=3))
    with pytest.raises(UsageError, match="no table of numbers"):
        to_yaml(msgspec.structs.replace(request, model=other))
