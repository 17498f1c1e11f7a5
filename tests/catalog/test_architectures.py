"""Models by name: how they are found, and that their counts are those of the library's own classes."""

from __future__ import annotations

import pytest

from preflight.catalog import files
from preflight.catalog.architectures import (
    ModelFile,
    find_model,
    find_name,
    load_model,
    model_file,
    model_names,
    resolve_model,
    spec_from_config,
)
from preflight.cost.parameters import count_parameters
from preflight.errors import CatalogError, InputError, UsageError

NAMES = model_names()


def test_the_catalog_is_wide() -> None:
    assert len(NAMES) >= 95


@pytest.mark.parametrize("name", NAMES)
def test_a_file_loads_and_holds_what_its_family_needs(name: str) -> None:
    content = model_file(name)
    spec = load_model(name)
    assert content.sources
    assert spec.name == name
    assert spec.parameters == content.parameters > 0
    if spec.base_parameters is not None and spec.active_parameters is not None:
        assert spec.active_parameters < spec.parameters
    if spec.family in ("cnn", "vision_transformer", "diffusion_model"):
        assert spec.image_size
    if spec.activation_elements is not None or spec.network is not None:
        return
    assert spec.layers
    assert spec.hidden
    assert spec.heads
    assert spec.ffn
    if spec.family in ("vision_transformer", "diffusion_model"):
        assert spec.tokens_per_image
        assert spec.patch_size


@pytest.mark.parametrize("name", NAMES)
def test_the_formula_gives_the_count_in_the_file(name: str) -> None:
    content = model_file(name)
    if content.config is None:
        assert content.architecture
        return
    spec = spec_from_config(content.configuration(), content.class_name)
    assert spec is not None
    if spec.network is not None:
        count = count_parameters(spec)  # the form is all that a configuration gives; its parameters are written down
        assert count is not None
        assert count.total == content.parameters
    elif spec.parameters is None:
        assert spec.parameters_reason
    else:
        assert spec.parameters == content.parameters


def test_no_spelling_names_two_models() -> None:
    owner: dict[str, str] = {name: name for name in NAMES}
    for alias, name in files.aliases("models"):
        assert owner.setdefault(alias, name) == name, alias


def test_a_spelling_that_fits_two_models_is_neither() -> None:
    assert find_name("vit_b_32") == "vit-base-patch32-224"
    assert find_name("torchvision.models.vit_b_32") == "vit-base-patch32-224"
    assert find_name("ViT-B-32") == "clip-vit-base-patch32"
    assert find_name("VIT-B_32") is None


def test_every_alias_finds_its_file() -> None:
    for alias, name in files.aliases("models"):
        assert find_name(alias) == name, alias


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("NousResearch/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("unsloth/Llama-3.2-1B-Instruct-bnb-4bit", "llama-3.2-1b"),
        ("google-bert/bert-base-uncased", "bert-base-uncased"),
        ("BERT-Base-Uncased", "bert-base-uncased"),
        ("torchvision.models.resnet50", "resnet50"),
        ("resnet50.a1_in1k", "resnet50"),
        ("timm/resnet50.a1_in1k", "resnet50"),
        ("gpt2_xl", "gpt2-xl"),
        ("ViT-B/32", "clip-vit-base-patch32"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
    ],
)
def test_the_ways_people_write_a_model(text: str, name: str) -> None:
    assert find_name(text) == name
    found = find_model(text)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("text", ["", " ", "no-such-model", 'a"b', "../gpus/h100", "a\nb", "/", "-hf", "llama", "*"])
def test_what_is_no_model_is_none(text: str) -> None:
    assert find_model(text) is None


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        resolve_model("lama-2-7b")
    assert caught.value.hint == "did you mean 'llama-2-7b'?"
    with pytest.raises(UsageError) as caught:
        resolve_model("0123456789")
    assert "preflight list models" in str(caught.value.hint)


def test_the_class_that_a_script_builds_decides_the_count() -> None:
    base = load_model("bert-base-uncased")
    classifier = load_model("bert-base-uncased", "AutoModelForSequenceClassification")
    # One matrix of 768 by 2 labels and its bias.
    assert base.parameters is not None
    assert classifier.parameters == base.parameters + 768 * 2 + 2
    assert classifier.head == "classification"
    unknown = load_model("bert-base-uncased", "BertForNextSentencePrediction")
    assert unknown.parameters is None
    assert "BertForNextSentencePrediction" in str(unknown.parameters_reason)
    assert unknown.base_parameters == base.parameters


def test_another_class_of_an_explicit_model_is_not_guessed() -> None:
    spec = load_model("resnet50", "MyResNet")
    assert spec.parameters is None
    assert spec.parameters_reason


def test_active_parameters_of_experts() -> None:
    spec = load_model("mixtral-8x7b")
    assert spec.parameters == 46_702_792_704
    # Six of eight experts of 3 x 4096 x 14336 stay idle in each of 32 layers.
    assert spec.active_parameters == 46_702_792_704 - 32 * 6 * 3 * 4096 * 14336


def test_a_configuration_of_no_known_type_is_none() -> None:
    assert spec_from_config({}) is None
    assert spec_from_config({"model_type": "no-such-type"}) is None
    assert spec_from_config({"model_type": ["llama"]}) is None


def test_a_wrapped_text_model_says_what_is_not_counted() -> None:
    spec = spec_from_config({"model_type": "llava", "text_config": {"model_type": "llama"}})
    assert spec is not None
    assert spec.hidden == 4096
    assert spec.parameters is None
    assert "llava" in str(spec.parameters_reason)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "hidden_size": "4096"},
        {"model_type": "llama", "hidden_size": -1},
        {"model_type": "llama", "num_attention_heads": 0},
        {"model_type": "gpt2", "n_embd": 10, "n_head": 3},
        {"model_type": "vit", "image_size": 8, "patch_size": 16},
        {"model_type": "wav2vec2", "conv_dim": "many"},
        {"model_type": "bert", "hidden_dropout_prob": "much"},
    ],
)
def test_an_impossible_configuration_is_one_clear_error(config: dict[str, object]) -> None:
    with pytest.raises(InputError, match="model configuration"):
        spec_from_config(config)


def test_a_file_needs_a_source_and_one_of_two_tables(tmp_path: object) -> None:
    import pathlib

    folder = pathlib.Path(str(tmp_path)) / "models"
    folder.mkdir()
    head = 'aliases = ["org/Mine-7B"]\nparameters = 10\nlibrary = "x"\nclass_name = "Mine"\n'
    (folder / "mine.toml").write_text(head + 'sources = ["here"]\n[architecture]\nfamily = "mlp"\n')
    (folder / "bare.toml").write_text(head.replace("Mine-7B", "Bare") + '[architecture]\nfamily = "mlp"\n')
    (folder / "both.toml").write_text(head.replace("Mine-7B", "Both") + 'sources = ["here"]\n')
    extra = (str(tmp_path),)
    mine = resolve_model("org/mine-7b", extra=extra)
    assert mine.parameters == 10
    assert mine.family == "mlp"
    assert resolve_model("gpt2", extra=extra).parameters == 124_439_808
    with pytest.raises(CatalogError, match="source"):
        load_model("bare", extra=extra)
    with pytest.raises(CatalogError, match="either"):
        load_model("both", extra=extra)
    with pytest.raises(CatalogError, match="no model"):
        load_model("absent", extra=extra)


def test_the_fields_of_a_file_are_closed() -> None:
    assert "sources" in ModelFile.__struct_encode_fields__
    with pytest.raises(CatalogError, match="unknown key"):
        files.convert({"sources": ["x"], "parameter": 1}, ModelFile, "x.toml")


@pytest.mark.parametrize(
    ("name", "kind", "depths"),
    [
        ("resnet18", "basic", [2, 2, 2, 2]),
        ("resnet34", "basic", [3, 4, 6, 3]),
        ("resnet50", "bottleneck", [3, 4, 6, 3]),
        ("resnet152", "bottleneck", [3, 8, 36, 3]),
    ],
)
def test_a_residual_network_keeps_what_the_same_layers_of_another_library_keep(
    name: str, kind: str, depths: list[int]
) -> None:
    widths = [64, 128, 256, 512] if kind == "basic" else [256, 512, 1024, 2048]
    config = {"model_type": "resnet", "num_labels": 1000, "layer_type": kind, "depths": depths, "hidden_sizes": widths}
    counted, measured = spec_from_config(config), find_model(name)
    assert measured is not None
    for field in ("parameters", "activation_elements", "forward_flops", "image_size"):
        assert getattr(counted, field) == getattr(measured, field), field
