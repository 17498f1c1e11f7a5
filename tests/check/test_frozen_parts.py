"""What is frozen of a library's network by its name trains nothing, and nothing before the first trained part is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.measured_on_a_gpu import MEASURED, MEASURED_H100, PROGRAMS

from preflight import analyze
from preflight.vocabulary.report import Report

_WHISPER = (PROGRAMS / "whisper_tuned.py").read_text(encoding="utf-8")
_LOOP = """for parameter in model.model.encoder.parameters():
    parameter.requires_grad = False
"""
_T5 = (PROGRAMS / "t5_small.py").read_text(encoding="utf-8")


def _report(tmp_path: Path, text: str) -> Report:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    return analyze(script, gpu="h100")


def test_what_an_h100_measured_of_a_frozen_encoder_lies_within_what_is_read() -> None:
    memory = analyze(PROGRAMS / "whisper_tuned.py", gpu="h100").memory
    assert memory is not None
    assert memory.peak_bytes is not None
    assert memory.assumed is None
    assert memory.peak_bytes.low <= MEASURED_H100["whisper_tuned"]["allocated"] <= memory.peak_bytes.high


@pytest.mark.parametrize(
    "frozen",
    [
        "model.model.encoder.requires_grad_(False)\n",
        "model.freeze_encoder()\n",
        "model.get_encoder().requires_grad_(False)\n",
        "for p in list(model.model.encoder.parameters()):\n    p.requires_grad_(False)\n",
        "for _, p in model.model.encoder.named_parameters():\n    p.requires_grad = False\n",
    ],
)
def test_an_encoder_is_frozen_in_many_ways(tmp_path: Path, frozen: str) -> None:
    # The convolutions, the positions, twelve blocks and a norm of Whisper (small) have 88,154,112 parameters.
    report = _report(tmp_path, _WHISPER.replace(_LOOP, frozen))
    assert report.facts["model.trainable_parameters"].value == 241_734_912 - 88_154_112
    assert report.memory is not None
    assert "12 frozen ones keep nothing" in " ".join(report.memory.how)


@pytest.mark.parametrize(
    "frozen",
    [
        _LOOP + "model.model.encoder.requires_grad_(True)\n",
        _LOOP + "model.model.encoder.layer_norm.requires_grad_(True)\n",
        "if input():\n    model.freeze_encoder()\n",
        _LOOP + "model.model.decoder.layers[0].requires_grad_(False)\n",
        _LOOP + "model.enable_input_require_grads()\n",
    ],
)
def test_nothing_is_taken_for_frozen_that_may_be_trained(tmp_path: Path, frozen: str) -> None:
    report = _report(tmp_path, _WHISPER.replace(_LOOP, frozen))
    assert report.memory is not None
    assert "frozen" not in " ".join(report.memory.how)


def test_an_encoder_takes_the_embedding_that_it_shares_with_it(tmp_path: Path) -> None:
    text = _T5.replace("optimizer = ", "model.encoder.requires_grad_(False)\noptimizer = ", 1)
    # The decoder's blocks, their norm and its table of positions are left; the embedding is the output matrix, too.
    trained = _report(tmp_path, text).facts["model.trainable_parameters"].value
    assert trained == 60_506_624 - 35_330_816


def test_the_interval_reaches_down_to_nothing_trained_where_nobody_knows_how_much_is() -> None:
    memory = analyze(PROGRAMS / "lora_7b.py", gpu="h200").memory
    assert memory is not None
    assert memory.peak_bytes is not None
    assert memory.peak_bytes.low <= MEASURED["lora_7b"]["allocated"] <= memory.peak_bytes.high
    # 6.7 billion weights in bf16 lie there whatever is trained.
    assert memory.peak_bytes.low > 2 * 6.7e9
    assert "how many parameters are trained is not known" in " ".join(memory.how)
