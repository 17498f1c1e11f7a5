"""A project's own catalog folder: GPUs and models in it are found, listed, and win over the shipped ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .command_line import HEALTHY, run

GPU = """\
title = "The lab's card"
vendor = "nvidia"
architecture = "ada"
aliases = ["lab"]
memory_bytes = 50_898_927_616
sold_as_gb = 48
bandwidth_gb_per_s = 960
peak_tflops = { fp32 = 91.1, fp16 = 364.2, bf16 = 364.2 }
compute_capability = [8, 9]
sources = ["read on the machine"]
"""
MODEL = """\
aliases = ["lab/unheard-of"]
library = "transformers"
class_name = "LlamaForCausalLM"
parameters = 1_100_048_384
sources = ["the published configuration"]

[config]
model_type = "llama"
vocab_size = 32000
hidden_size = 2048
intermediate_size = 5632
num_hidden_layers = 22
num_attention_heads = 32
num_key_value_heads = 4
"""
SCRIPT = """\
import torch
from transformers import AutoConfig, AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("lab/unheard-of")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(texts, batch_size=1, shuffle=True):
    optimizer.zero_grad()
    model(**batch).loss.backward()
    optimizer.step()
"""


def _folder(project: Path) -> Path:
    """A catalog folder of a name of its own: what was read from a folder is kept as long as the process lives."""
    return project / f"catalog-{project.name}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    for kind, name, text in (("gpus", "lab_card", GPU), ("models", "tiny-of-ours", MODEL)):
        (_folder(tmp_path) / kind).mkdir(parents=True)
        (_folder(tmp_path) / kind / f"{name}.toml").write_text(text)
    (tmp_path / "pyproject.toml").write_text(f'[tool.preflight]\ncatalog = ["{_folder(tmp_path).name}"]\n')
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_of_the_project_is_known(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("check", "train.py", "--gpu", "lab", "--format", "json")
    report = json.loads(capsys.readouterr().out)
    assert report["facts"]["model.parameters"]["value"] == 1_100_048_384
    assert report["inputs"]["capacity_bytes"] == 50_898_927_616
    (project / "pyproject.toml").unlink()
    run("check", "train.py", "--format", "json")
    assert json.loads(capsys.readouterr().out)["facts"]["model.parameters"]["value"] is None


def test_the_configuration_of_such_a_model_is_known(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = 'AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("tiny-of-ours"))'
    (project / "train.py").write_text(SCRIPT.replace('AutoModelForCausalLM.from_pretrained("lab/unheard-of")', made))
    run("check", "train.py", "--format", "json")
    assert json.loads(capsys.readouterr().out)["facts"]["model.parameters"]["value"] == 1_100_048_384


def test_what_is_in_it_is_listed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "models", "tiny-of-ours") == 0
    assert "1,100,048,384" in capsys.readouterr().out
    assert run("list", "gpus", "lab_card") == 0
    assert "The lab's card" in capsys.readouterr().out


def test_a_file_without_a_source_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _folder(project) / "models" / "tiny-of-ours.toml"
    file.write_text(MODEL.replace('sources = ["the published configuration"]\n', ""))
    assert run("check", "train.py") == 2
    assert "tiny-of-ours.toml: names no source" in capsys.readouterr().err


def test_a_catalog_that_is_not_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.preflight]\ncatalog = ["elsewhere"]\n')
    (project / "train.py").write_text(HEALTHY)
    for command in (("check", "train.py"), ("list", "models")):
        assert run(*command) == 2
        assert "catalog names the folder elsewhere, which is not there" in capsys.readouterr().err
