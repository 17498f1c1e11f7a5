"""Choices that hang on a layer being there, and metrics that are no layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import analyze

SCRIPT = """
import torch, torchmetrics
from torch import nn
from torch.nn.modules.utils import _pair
from torchvision import datasets, transforms

class Net(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.same = into == out
        BODY
    def forward(self, x):
        FORWARD

net = Net(3, 8)
data = datasets.CIFAR10("data", transform=transforms.ToTensor())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x).mean((2, 3)), y).backward()
    optimizer.step()
"""
CONVOLUTION = 3 * 8 * 9 + 8


@pytest.mark.parametrize(
    ("body", "forward", "parameters"),
    [
        (
            "self.conv = (not self.same) and nn.Conv2d(into, out, 3) or None",
            "return self.conv(x) if self.conv is not None else x",
            CONVOLUTION,
        ),
        (
            "self.conv = nn.Conv2d(into, out, 3)\n        self.seen = torchmetrics.Accuracy(task='multiclass', num_classes=8)",
            "return self.conv(x)",
            CONVOLUTION,
        ),
        ("self.conv = nn.Conv2d(into, out, _pair(3))", "return self.conv(x)", CONVOLUTION),
        (
            "self.conv = nn.Conv2d(into, out, 3)\n        for name, held in {'scale': torch.ones(10)}.items():\n"
            "            self.register_buffer(name, held)",
            "places = torch.randint(10, (x.shape[0],))\n        return self.conv(self.scale[places, None, None, None] * x)",
            CONVOLUTION,
        ),
        (
            "self.conv = nn.Conv2d(into, out, 3)\n        self.turned = transforms.RandomHorizontalFlip()",
            "return self.conv(x)",
            CONVOLUTION,
        ),
    ],
)
def test_networks_that_are_counted_and_followed(tmp_path: Path, body: str, forward: str, parameters: int) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("BODY", body).replace("FORWARD", forward))
    report = analyze(path, gpu="a100-80gb")
    assert report.facts["model.parameters"].value == parameters
    assert report.verdict == "GO"


def test_a_metric_with_a_network_of_its_own_is_not_passed_over(tmp_path: Path) -> None:
    body = "self.conv = nn.Conv2d(into, out, 3)\n        self.far = torchmetrics.image.fid.FrechetInceptionDistance()"
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("BODY", body).replace("FORWARD", "return self.conv(x)"))
    assert not analyze(path).facts["model.parameters"].known


def test_attention_between_shapes_that_do_not_fit_has_no_memory(tmp_path: Path) -> None:
    body = "self.conv = nn.Conv2d(into, out, 3)"
    forward = (
        "h = self.conv(x).flatten(2)\n        k = h.transpose(1, 2)\n"
        "        return nn.functional.scaled_dot_product_attention(h, k, k)[..., None]"
    )
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.replace("BODY", body).replace("FORWARD", forward))
    report = analyze(path, gpu="a100-80gb")
    assert report.memory is not None
    assert report.memory.peak_bytes is None
