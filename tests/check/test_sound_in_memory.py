"""A network on raw sound works on its samples, many of which make one token; its labels have a length of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.measured_on_a_gpu import MEASURED_H100, PROGRAMS

from preflight import analyze
from preflight.catalog.configurations import spec_from_config
from preflight.vocabulary.report import Report

_SOUND = (PROGRAMS / "wav2vec2.py").read_text(encoding="utf-8")
_FREEZES = "model.freeze_feature_encoder()\n"
_MADE = 'torch.randn(8, 80000, device="cuda")'


def _report(tmp_path: Path, text: str) -> Report:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    return analyze(script, gpu="h100")


def test_what_an_h100_measured_of_sound_lies_within_what_is_read() -> None:
    report = analyze(PROGRAMS / "wav2vec2.py", gpu="h100")
    assert report.facts["sequence_length"].value == 250
    assert report.facts["model.trainable_parameters"].value == 94_395_552 - 4_200_448
    assert report.memory is not None
    assert report.memory.peak_bytes is not None
    assert report.memory.peak_bytes.low <= MEASURED_H100["wav2vec2"]["allocated"] <= report.memory.peak_bytes.high


def test_convolutions_that_are_trained_keep_what_they_read(tmp_path: Path) -> None:
    frozen, trained = (_report(tmp_path, text).memory for text in (_SOUND, _SOUND.replace(_FREEZES, "")))
    assert frozen is not None
    assert trained is not None
    kept = [one.timeline[-3].owners["activations"] for one in (frozen, trained)]
    # Of 8 x 250 tokens, in fp32; what autograd saves for a token is counted below.
    assert kept[1] - kept[0] == pytest.approx(8 * 250 * 4 * (97_600 + 65_536), rel=0.01)


def test_no_label_tells_the_length_of_sound_that_nobody_knows(tmp_path: Path) -> None:
    report = _report(tmp_path, _SOUND.replace(_MADE, "next(sounds)"))
    assert "samples of sound" in (report.facts["sequence_length"].reason or "")
    assert report.memory is not None
    assert report.memory.peak_bytes is None


def test_what_a_feature_extractor_cuts_to_is_counted_in_samples(tmp_path: Path) -> None:
    text = _SOUND.replace(
        _MADE, "extract(next(sounds), sampling_rate=16000, max_length=160000, truncation=True).input_values"
    )
    text = text.replace(
        "torch.manual_seed(0)\n", 'extract = AutoFeatureExtractor.from_pretrained("facebook/wav2vec2-base")\n'
    )
    text = text.replace("import Wav2Vec2Config", "import AutoFeatureExtractor, Wav2Vec2Config")
    assert _report(tmp_path, text).facts["sequence_length"].value == 500


@pytest.mark.parametrize("norm", ["group", "layer"])
def test_what_convolutions_of_sound_keep_is_what_autograd_saves(norm: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, feat_extract_norm=norm,
        conv_bias=norm == "layer", conv_dim=(128,) * 7, num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    model = transformers.Wav2Vec2Model(config)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        tokens = model.feature_extractor(torch.randn(1, 320 * 200)).shape[-1]
    spec = spec_from_config(config.to_dict(), "Wav2Vec2Model")
    assert spec is not None
    assert spec.samples_per_token is not None
    assert spec.sound_parameters == sum(one.numel() for one in model.feature_extractor.parameters())
    expected = (spec.sound_elements or 0) + (spec.sound_normed_elements or 0)
    assert sum(size for size, _ in saved.values()) / 4 == pytest.approx(expected * tokens, rel=0.02)
