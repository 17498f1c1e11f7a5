from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.catalog.architectures import load_model
from preflight.cost.parameters import count_parameters
from preflight.errors import InputError, UsageError
from preflight.plan.evaluate import evaluate
from preflight.plan.inputs.cluster import cluster_from
from preflight.plan.inputs.document import settings_in
from preflight.plan.inputs.form import TYPES
from preflight.plan.inputs.model import configured
from preflight.plan.inputs.requests import request_from
from preflight.plan.inputs.settings import Settings
from preflight.plan.inputs.sizes import decoder_of, model_of_size
from preflight.plan.spread import settled


@pytest.mark.parametrize(
    ("family", "billions", "named"),
    [
        ("transformer_decoder", 7.0, "32 layers, hidden 4096"),
        ("transformer_encoder", 0.11, "BERT-Base"),
        ("transformer_encoder", 0.34, "BERT-Large"),
        ("encoder_decoder", 0.22, "T5-Base"),
        ("moe", 47.0, "mixtral-8x7b"),
        ("vision_transformer", 0.086, "ViT-B/16"),
        ("vision_transformer", 22.0, "ViT-22B/14"),
        ("cnn", 0.0256, "resnet50"),
        ("diffusion_model", 0.86, "stable-diffusion-v1-5"),
    ],
)
def test_a_size_names_the_published_shape_that_it_stands_for(family: str, billions: float, named: str) -> None:
    sized = model_of_size(billions, family)  # type: ignore[arg-type]
    assert named in sized.assumption
    assert sized.model.parameters == round(billions * 1e9)
    assert sized.model.family == family


@pytest.mark.parametrize(
    ("family", "billions", "own"),
    [
        # What papers say of their own models, in billions; T5-Large as the class of transformers counts it.
        ("transformer_encoder", 0.11, 0.11), ("transformer_encoder", 0.34, 0.34), ("transformer_encoder", 3.9, 3.9),
        ("transformer_encoder", 10.7, 10.7), ("encoder_decoder", 0.22, 0.22), ("encoder_decoder", 0.738, 0.738),
        ("encoder_decoder", 2.8, 2.8), ("encoder_decoder", 11, 11), ("encoder_decoder", 20, 20),
        ("vision_transformer", 0.086, 0.086), ("vision_transformer", 0.632, 0.632), ("vision_transformer", 1.843, 1.843),
        ("vision_transformer", 3.926, 3.926), ("vision_transformer", 21.743, 21.743),
    ],
)  # fmt: skip
def test_published_shapes_have_their_published_size(family: str, billions: float, own: float) -> None:
    import re

    said = re.search(r"\(([\d.e+]+) billion", model_of_size(billions, family).assumption)  # type: ignore[arg-type]
    assert said is not None
    assert float(said[1]) == pytest.approx(own, rel=0.04)


@pytest.mark.parametrize("kind", TYPES)
def test_every_kind_can_be_planned_by_its_size(kind: str) -> None:
    request = settled(request_from(settings_in(f"model: {{type: {kind}, size_billions: 0.5, batch_size: 8}}")))
    assert request.parallel is not None
    found = evaluate(request.model, request.run, request.parallel, request.cluster)
    assert found.allocated > 0.5e9 * 18  # weights, gradients, master weights, two moments


@given(st.floats(0.02, 1500))
def test_a_decoder_has_the_parameters_that_were_asked_for(billions: float) -> None:
    count = count_parameters(decoder_of(billions))
    assert count is not None
    assert count.total == pytest.approx(billions * 1e9, rel=1e-6)


def test_what_is_kept_grows_with_the_width_where_a_network_is_widened() -> None:
    own = load_model("convnext-large").activation_elements
    wide = model_of_size(4 * 0.1978, "cnn").model.activation_elements
    assert own is not None
    assert wide == pytest.approx(2 * own, rel=0.01)


@pytest.mark.parametrize(("family", "billions"), [("encoder_decoder", 500), ("transformer_encoder", 200), ("moe", 0)])
def test_sizes_of_which_nothing_is_published_are_refused(family: str, billions: float) -> None:
    with pytest.raises(UsageError) as caught:
        model_of_size(billions, family)  # type: ignore[arg-type]
    assert "at most" in (caught.value.hint or "")


def test_a_timm_configuration_names_its_factory(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "config.json").write_text('{"architecture": "resnet50", "num_classes": 10}')
    model = configured(str(folder)).model
    # The head has 2,048 inputs and a bias for every class.
    assert model.parameters == 25_557_032 - 990 * 2049
    (folder / "config.json").write_text('{"_class_name": "Flux"}')
    with pytest.raises(InputError, match="the type 'Flux' is not counted"):
        configured(str(folder))
    (folder / "config.json").write_text("[1]")
    with pytest.raises(InputError, match="not the configuration of a model"):
        configured(str(folder))


@pytest.mark.parametrize(
    ("text", "gpus", "inside", "inter"),
    [
        ("cluster: {num_gpus: 4}", 4, 8, None),
        ("cluster: {num_gpus: 64}", 64, 8, "ib_ndr"),
        ("cluster: {nodes: 3}", 24, 8, "ib_ndr"),
        ("cluster: {nodes: 2, gpus_per_node: 4}", 8, 4, "ib_ndr"),
        ("cluster: {num_gpus: 12}", 12, 6, "ib_ndr"),
        ("cluster: {num_gpus: 16, nodes: 4}", 16, 4, "ib_ndr"),
        ("cluster: {num_gpus: 16}\nhardware: {gpu_type: A100}", 16, 8, "ib_hdr"),
        ("cluster: {num_gpus: 16}\nhardware: {gpu_type: gb200}", 16, 4, "ib_ndr"),
        ("cluster: {num_gpus: 16}\nhardware: {gpu_type: rtx_4090}", 16, 8, "ethernet_100"),
        ("cluster: {num_gpus: 16, inter_node: EFA}\nhardware: {gpu_type: h100}", 16, 8, "efa_v2"),
    ],
)
def test_clusters_are_completed_by_what_is_usual(text: str, gpus: int, inside: int, inter: str | None) -> None:
    found = cluster_from(settings_in(text))
    assert (found.cluster.num_gpus, found.cluster.gpus_per_node) == (gpus, inside)
    assert (found.cluster.inter.name if found.cluster.inter else None) == inter


def test_what_is_usual_is_told() -> None:
    assert cluster_from(Settings()).assumptions == ("no GPU was named: NVIDIA H100 SXM5 80GB",)
    assert any("between nodes" in said for said in cluster_from(settings_in("cluster: {num_gpus: 16}")).assumptions)
