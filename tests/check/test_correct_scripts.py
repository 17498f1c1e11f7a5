"""Correct training scripts of many kinds: none is refused, and nobody is warned of what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.api import analyze
from preflight.vocabulary.report import Report

SCRIPTS = sorted((Path(__file__).parent / "scripts" / "correct").glob("*.py"))
# Why no verdict can be given by reading alone: what these lack is known when they run.
UNANSWERED = {
    "environment": ("dqn_replay", "ppo"),
    "data": (
        "audio_cnn", "gcn_plain", "hf_qwen_config", "mae_pretrain", "notebook_export", "sac",
        "seq2seq_attention", "simclr", "wav2vec_ctc",
    ),
    "network": (
        "actor_critic", "arcface", "byol_momentum", "clip_probe", "cyclegan", "ddpm_unet", "detection_fasterrcnn",
        "handmade_attention", "lazy_add_module", "lazy_setattr", "lit", "maml", "pipeline", "repackage", "tbptt",
        "transformer_xl_mems",
    ),
}  # fmt: skip
# What is said of a script that is right all the same: the advice holds, and is no fault of the script.
ADVICE = {
    "ctc": {"NUM011"},
    "reinforce": {"EFF023"},
}


def _told(report: Report) -> dict[str, str]:
    return {finding.code: finding.message for finding in report.findings if finding.severity != "info"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_correct_script_is_neither_refused_nor_warned_of(path: Path) -> None:
    report = analyze(path, gpu="A100-80GB")
    told = _told(report)
    told.pop("EFF009", None)  # TF32 is a choice that a correct script may leave open
    assert {code: told[code] for code in told.keys() - ADVICE.get(path.stem, set())} == {}
    unanswered = any(path.stem in names for names in UNANSWERED.values())
    assert report.verdict == ("UNKNOWN" if unanswered else "GO"), report.memory.reason if report.memory else None
