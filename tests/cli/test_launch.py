"""``--launch``: which script it starts, what its configuration file says, and what contradicts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .command_line import run

ACCELERATED = """\
import argparse
import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.1)
rate = parser.parse_args().rate
accelerator = Accelerator()
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
loader = torch.utils.data.DataLoader(torch.randn(64, 16), batch_size=8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    optimizer.zero_grad()
    accelerator.backward(model(batch).sum())
    optimizer.step()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(ACCELERATED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _facts(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    status = run("check", *arguments, "--format", "json")
    said = capsys.readouterr()
    assert status == 0, said.err
    facts: dict[str, Any] = json.loads(said.out)["facts"]
    return facts


def _config(project: Path, text: str) -> str:
    (project / "accelerate.yaml").write_text(text)
    return "accelerate launch --config_file accelerate.yaml "


@pytest.mark.parametrize(
    ("text", "world", "strategy", "precision"),
    [
        ("distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\nmixed_precision: bf16\n",
         16, "ddp", "autocast-bf16"),
        ("distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  zero_stage: 3\nmixed_precision: 'no'\n",
         4, "zero3", "fp32"),
        ("distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n",
         8, "fsdp1", "fp32"),
        ("distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}\n",
         8, "fsdp2", "fp32"),
        ("distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}\n",
         8, None, "fp32"),
        ('{"distributed_type": "NO", "num_processes": 1, "mixed_precision": "fp16"}', 1, None, "autocast-fp16"),
    ],
)  # fmt: skip
def test_a_configuration_of_accelerate_is_read(
    text: str, world: int, strategy: str | None, precision: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = _facts(capsys, "--launch", _config(project, text) + "train.py")
    assert facts["world_size"]["value"] == world
    assert facts["distributed.strategy"]["value"] == strategy
    assert strategy is not None or facts["distributed.strategy"]["reason"]
    assert facts["precision"]["value"] == precision


def test_the_line_wins_over_the_configuration(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = _config(project, "num_processes: 4\nmixed_precision: bf16\n") + "--num_processes 2 --mixed_precision fp16 "
    facts = _facts(capsys, "--launch", line + "train.py")
    assert (facts["world_size"]["value"], facts["precision"]["value"]) == (2, "autocast-fp16")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "which is not there"),
        ("a: [1\n", "which is not YAML or JSON:2:1"),
        ("- 1\n", "which holds no settings"),
        ("num_processes: many\n", "which is not a number"),
    ],
)
def test_a_broken_configuration(text: str | None, said: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "accelerate launch --config_file accelerate.yaml " if text is None else _config(project, text)
    assert run("check", "--launch", line + "train.py") == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


def test_the_number_of_gpus_may_not_contradict_the_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "torchrun --nproc_per_node 8 train.py"
    assert run("check", "train.py", "--launch", line, "--gpus", "4") == 2
    assert "starts 8 processes, but --gpus says 4" in capsys.readouterr().err
    assert run("quick", "train.py", "--launch", line, "--gpus", "8") == 0
    (project / "pyproject.toml").write_text("[tool.preflight]\ngpus = 4\n")
    assert run("quick", "train.py", "--launch", line) == 0


def test_a_line_that_leaves_the_number_open(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "torchrun --nproc_per_node gpu train.py"
    assert "--gpus says it" in _facts(capsys, "--launch", line)["world_size"]["reason"]
    assert _facts(capsys, "--launch", line, "--gpus", "4")["world_size"]["value"] == 4
    assert _facts(capsys, "--launch", f"CUDA_VISIBLE_DEVICES=1,3 {line}")["world_size"]["value"] == 2


def test_the_line_starts_the_script_that_is_checked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "torchrun --nproc_per_node 2 train.py --rate 0.5"
    for path in ("train.py", "./train.py", project / "train.py"):
        assert _facts(capsys, path, "--launch", line)["optimizer.lr"]["value"] == 0.5
    assert run("check", "train.py", "--launch", "torchrun --nproc_per_node 2 other.py") == 2
    assert "the launch line starts other.py, but train.py is checked" in capsys.readouterr().err
    assert run("quick", "train.py", "--launch", "torchrun wrapper.py train.py") == 0


def test_a_package_is_started_by_its_main_module(project: Path) -> None:
    (project / "pkg").mkdir()
    (project / "pkg" / "__main__.py").write_text(ACCELERATED)
    assert run("quick", "pkg/__main__.py", "--launch", "torchrun --nproc_per_node 2 -m pkg") == 0


def test_a_count_without_a_number(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "train.py", "--launch", "torchrun --nproc_per_node") == 2
    assert "says --nproc-per-node and no number" in capsys.readouterr().err
