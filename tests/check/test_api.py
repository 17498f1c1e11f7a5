"""The Python interface: what the first page of the documentation shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import preflight
from preflight import TrainingPreflightAnalyzer, analyze
from preflight.vocabulary.report import Report

SCRIPT = """
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import resnet152
model = resnet152().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = datasets.ImageFolder("train", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
for x, y in DataLoader(data, batch_size=512, shuffle=True, num_workers=8):
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_without_a_gpu_memory_never_decides(script: Path) -> None:
    result = analyze(script)
    assert isinstance(result, Report)
    assert result.verdict == "GO"
    assert result.critical_errors == ()
    assert result.memory is not None
    assert result.memory.capacity_bytes is None


def test_an_analyzer_keeps_its_settings(script: Path) -> None:
    result = TrainingPreflightAnalyzer(gpu_memory_gb=16.0).analyze(script)
    assert result.verdict == "NO-GO"
    assert any("memory overflow" in error and "train.py:" in error for error in result.critical_errors)
    assert set(result.breakdown) >= {"model_parameters", "optimizer_states", "gradients", "activations"}
    assert result.breakdown["model_parameters"] == "230 MiB"  # 60,192,808 parameters x 4 bytes = 229.6 MiB


def test_a_folder_is_one_report_over_its_scripts(script: Path) -> None:
    (script.parent / "other.py").write_text("x = 1\n")
    result = analyze(script.parent, gpu="t4")
    assert result.verdict == "NO-GO"
    assert result.inputs["path"] == str(script)


def test_the_public_names_are_there() -> None:
    for name in preflight.__all__:
        assert getattr(preflight, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        preflight.nothing  # noqa: B018


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(preflight.PreflightError, match=r"missing\.py: no such file"):
        analyze(tmp_path / "missing.py")
