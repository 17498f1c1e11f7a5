"""Networks that only run beside the one that is trained: a frozen backbone, a teacher."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.api import analyze
from preflight.vocabulary.report import Report

SCRIPT = """
import torch
from torch import nn
from torchvision import datasets, models, transforms
from torch.utils.data import DataLoader
data = datasets.ImageFolder("data", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
loader = DataLoader(data, batch_size=64, shuffle=True)
backbone = models.resnet18(weights="DEFAULT")
backbone.fc = nn.Identity()
backbone = backbone.cuda().eval()
head = nn.Linear(512, 10).cuda()
optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    with GUARD:
        features = backbone(x)
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(features), y).backward()
    optimizer.step()
"""


def _report(folder: Path, guard: str) -> Report:
    path = folder / "train.py"
    path.write_text(SCRIPT.replace("GUARD", guard))
    return analyze(path, gpu="A100-40GB")


@pytest.mark.parametrize("guard", ["torch.no_grad()", "torch.inference_mode()"])
def test_a_head_on_features_of_a_frozen_backbone_has_a_verdict(tmp_path: Path, guard: str) -> None:
    report = _report(tmp_path, guard)
    assert report.facts["model.parameters"].value == 5130
    assert report.facts["model.frozen_beside"].value == 11_689_512 - 513_000
    assert report.verdict == "GO"
    assert report.memory is not None
    assert report.memory.breakdown is not None
    # The weights of both; of the backbone no gradients and no states.
    assert report.memory.breakdown.model_parameters == pytest.approx(4 * (11_176_512 + 5130))
    assert report.memory.breakdown.optimizer_states == pytest.approx(8 * 5130, rel=0.01)
    # The largest tensor of the forward pass alone: 64 images after the first convolution.
    assert report.memory.breakdown.activations > 64 * 64 * 112 * 112 * 4


def test_a_network_whose_gradients_are_recorded_does_not_only_run(tmp_path: Path) -> None:
    assert "model.frozen_beside" not in _report(tmp_path, "torch.enable_grad()").facts
