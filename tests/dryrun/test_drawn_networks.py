"""Where torchvision is missing, the networks that the catalog draws are there all the same, as large as reading says."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.catalog.network_files import network_file
from preflight.dryrun.launch import Job, dry_run
from preflight.source.layers import Network
from preflight.source.reading import read
from preflight.source.script import parse
from preflight.vocabulary.profile import Profile

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

# One of each file of drawings and of each stand-in, with something else than the default where scripts ask for it.
ASKED = (
    "alexnet(num_classes=10)", "convnext_tiny(weights='DEFAULT')", "densenet121()", "efficientnet_b0(pretrained=True)",
    "efficientnet_v2_s(dropout=0.1)", "mobilenet_v2(width_mult=0.5)", "mobilenet_v3_small(num_classes=7)", "resnet18()",
    "resnext50_32x4d()", "squeezenet1_1()", "vgg11_bn(num_classes=3)", "vit_b_32(image_size=64, num_classes=10)",
    "segmentation.deeplabv3_resnet50(num_classes=5)", "segmentation.fcn_resnet50(weights='DEFAULT')",
)  # fmt: skip

PROGRAM = """
import torch
from torchvision import models
from torchvision.models import EfficientNet_B0_Weights, MobileNetV2, efficientnet_b0
from torchvision.models.densenet import DenseNet
from torchvision.models.mobilenet import InvertedResidual
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet, conv1x1, conv3x3, model_urls
from torchvision.models.segmentation.deeplabv3 import DeepLabHead
from torchvision.models.vgg import VGG, cfgs, make_layers
from torchvision.ops import FrozenBatchNorm2d, StochasticDepth

class Dilated(ResNet):
    def __init__(self):
        super().__init__(Bottleneck, [3, 4, 6, 3], replace_stride_with_dilation=[False, True, True])
        self.inplanes, self.dilation = 64, 1
        self.layer1 = self._make_layer(BasicBlock, 64, 2)
        self.fc = torch.nn.Identity()

    def forward(self, x):
        return self._forward_impl(x)

expected = {EXPECTED}
with torch.device("meta"):
    for asked, parameters in expected.items():
        made = eval("models." + asked)
        found = sum(p.numel() for p in made.parameters())
        assert found == parameters, (asked, found, parameters)
    frozen = models.mobilenet_v2(norm_layer=FrozenBatchNorm2d)
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in frozen.modules())
    assert sum(p.numel() for p in models.get_model("mobilenet_v3_large").parameters()) == 5483032
    assert sum(p.numel() for p in VGG(make_layers(cfgs["D"])).parameters()) == 138357544
    assert isinstance(models.inception_v3(pretrained=True), models.Inception3)
    assert DenseNet(drop_rate=0.2).features.denseblock1 is not None
    assert Dilated().layer4[0].conv2.dilation == (2, 2)
    assert models.resnet50(norm_layer=torch.nn.InstanceNorm2d).bn1.running_mean is None
assert model_urls["resnet18"].endswith("resnet18.pth")
assert {"convnext_tiny", "resnet18", "mobilenet_v2"} <= set(models.list_models())
assert "efficientnet_b0" in models.__dict__
net = efficientnet_b0(weights=EfficientNet_B0_Weights.IMAGENET1K_V1)
net.classifier[1] = torch.nn.Linear(net.classifier[1].in_features, 10)
net.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(2, 3, 64, 64).cuda()), torch.tensor([1, 2]).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _read(asked: str) -> int | None:
    script = f"from torchvision import models\nimport torch\nnet = models.{asked}\n"
    script += "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    reading = read(parse(script.encode(), "train.py"))
    return Network(reading, reading.models[0]).total


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is not None, reason="torchvision is there itself")
def test_networks_that_are_drawn_are_as_large_when_they_run(run_program: Callable[[str], Profile]) -> None:
    expected = {asked: _read(asked) for asked in ASKED}
    assert None not in expected.values()
    seen = run_program(PROGRAM.replace("{EXPECTED}", repr(expected)))
    assert seen.steps == 2
    assert "pretrained weights of torchvision were not read" in seen.assumptions


def test_each_network_that_is_asked_for_here_has_a_drawing() -> None:
    names = [asked.partition("(")[0].rpartition(".")[2] for asked in ASKED]
    assert all(network_file("torchvision", name) is not None for name in names)


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is not None, reason="torchvision is there itself")
def test_an_option_that_a_drawing_lacks_asks_for_the_library(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torchvision\nnet = torchvision.models.vit_b_16(norm_layer=None, num_classes=10)\n")
    gpu = resolve_gpu("a100-80gb")
    seen = dry_run(Job(script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=80 << 30, seconds=120))
    assert seen.error == "ModuleNotFoundError"
    assert "norm_layer" in seen.message
    assert seen.message.startswith("No module named 'torchvision'")
