"""Networks of libraries that are drawn in the catalog: their size, what they keep, and what a script does to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.catalog.architectures import find_model
from preflight.catalog.network_files import drawn_names
from preflight.check.api import analyze
from preflight.check.forward.follow import Forward
from preflight.check.forward.network_calls import calls_of
from preflight.source.frozen import frozen_layers
from preflight.source.layers import Network
from preflight.source.reading import Reading, read
from preflight.source.script import parse

LOOP = """
import timm, torch, torchvision
from torch import nn
from torchvision import datasets, models, transforms
from torch.utils.data import DataLoader
data = datasets.ImageFolder("data", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
loader = DataLoader(data, batch_size={batch}, shuffle=True)
{model}
model = model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""
# One of each file, with the number of parameters that is published where the catalog does not hold the network.
NETWORKS = {
    "resnet18": None, "resnet50": None, "resnext50_32x4d": None, "wide_resnet50_2": None, "vgg11": None, "vgg16_bn": None,
    "alexnet": 61_100_840, "squeezenet1_0": 1_248_424, "squeezenet1_1": 1_235_496, "densenet121": None,
    "densenet161": 28_681_000, "mobilenet_v2": None, "mobilenet_v3_large": None, "mobilenet_v3_small": None,
    "efficientnet_b0": None, "efficientnet_v2_s": None, "convnext_tiny": None, "vit_b_16": None, "vit_l_32": 306_535_400,
}  # fmt: skip


def _read(model: str, batch: int = 4) -> Reading:
    return read(parse(LOOP.format(model=model, batch=batch).encode(), "train.py"))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_torchvision_has_its_published_size_and_keeps_what_was_measured(name: str) -> None:
    reading = _read(f"model = models.{name}()")
    network = Network(reading, reading.models[0])
    spec = find_model(name)
    published = spec.parameters if spec is not None else None
    assert network.total == (NETWORKS[name] or published)
    flow = Forward(reading, calls_of(reading, reading.models[0]), (3, 224, 224), 4)
    assert flow.kept is not None, flow.reason
    if spec is not None and spec.activation_elements and spec.image_size == 224:
        # The catalog counts the indices of max pooling once; they have eight bytes each.
        pooled = {"resnet18": 0.038, "vgg11": 0.15, "vgg16_bn": 0.052}.get(name, 0.01)
        assert flow.kept / 4 == pytest.approx(spec.activation_elements, rel=pooled)


def test_networks_of_timm_are_drawn_too() -> None:
    reading = _read("model = timm.create_model('resnet50', num_classes=10)")
    assert Network(reading, reading.models[0]).total == 23_508_032 + 2048 * 10 + 10
    reading = _read("model = timm.create_model('vit_small_patch16_224', pretrained=True, num_classes=0)")
    assert Network(reading, reading.models[0]).total == 21_665_664
    assert {"Block", "PatchEmbed", "resnet18"} < set(drawn_names("timm"))


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("model = models.resnet50(weights='DEFAULT')\nmodel.fc = nn.Linear(model.fc.in_features, 10)", 23_528_522),
        ("model = models.vgg16(pretrained=True)\nmodel.classifier[6] = nn.Linear(4096, 10)", 134_301_514),
        (
            "model = models.mobilenet_v2(pretrained=True)\n"
            "model.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(model.last_channel, 10))",
            2_236_682,
        ),
        ("model = models.resnet18()\nmodel = nn.Sequential(*list(model.children())[:-1], nn.Flatten())", 11_176_512),
        ("model = models.resnet18()\nmodel.conv1 = nn.Conv2d(1, 64, kernel_size=7, bias=False)", 11_683_240),
        ("model = models.vit_b_16()\nmodel.heads.head = nn.Linear(model.heads.head.in_features, 10)", 85_806_346),
        ("model = torchvision.models.segmentation.deeplabv3_resnet50(num_classes=21)", 39_638_869),
    ],
)
def test_parts_that_a_script_replaces_are_counted(model: str, parameters: int) -> None:
    reading = _read(model)
    assert Network(reading, reading.models[0]).total == parameters


def test_a_backbone_inside_a_network_of_the_script_is_followed() -> None:
    own = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = models.resnet18(weights=None)
        self.body.fc = nn.Identity()
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        return self.head(self.body(x))

model = Net()
"""
    reading = _read(own)
    assert Network(reading, reading.models[0]).total == 11_181_642
    whole = Forward(reading, calls_of(reading, reading.models[0]), (3, 224, 224), 4)
    alone = _read("model = models.resnet18()")
    body = Forward(alone, calls_of(alone, alone.models[0]), (3, 224, 224), 4)
    assert whole.kept == body.kept


def test_rules_do_not_see_into_a_drawing() -> None:
    reading = _read("model = models.efficientnet_b0()\nmodel.classifier[1] = nn.Linear(1280, 5)")
    assert {event.script.path for event in reading.trace.events} == {"train.py"}
    assert not reading.trace.calls("torch.nn.Conv2d")
    assert len(reading.trace.calls("torch.nn.Linear")) == 1


def test_a_frozen_backbone_has_no_gradients_and_keeps_nothing() -> None:
    frozen = "model = models.resnet50()\nfor p in model.parameters():\n    p.requires_grad = False\nmodel.fc = nn.Linear(2048, 10)"
    reading = _read(frozen, batch=64)
    network = Network(reading, reading.models[0])
    found = frozen_layers(reading, network)
    assert found.certain
    assert network.total is not None
    assert network.total - found.parameters == 20_490
    kept = Forward(reading, calls_of(reading, reading.models[0]), (3, 224, 224), 64, found.leaves).kept
    # Followed with torch: at most 45.2 MiB of tensors are alive at once in a forward pass of four images.
    assert kept is not None
    assert 1.0 <= kept * 4 / (16 * 45.2 * 2**20) < 1.2


@pytest.mark.parametrize(
    ("change", "trained"),
    [
        ("model.requires_grad_(False)\nmodel.layer4.requires_grad_(True)", 8_393_728),
        ("for p in model.layer1.parameters():\n    p.requires_grad = False", 11_689_512 - 147_968),
        (
            "for child in list(model.children())[:-1]:\n    for p in child.parameters():\n        p.requires_grad = False",
            513_000,
        ),
        (
            "for name, p in model.named_parameters():\n    if 'fc' not in name:\n        p.requires_grad = False",
            513_000,
        ),
        (
            "for name, p in model.named_parameters():\n    p.requires_grad = name.startswith(('layer4.', 'fc.'))",
            8_906_728,
        ),
        (
            "for name, p in model.named_parameters():\n    if any(k in name for k in ('layer4', 'fc')):\n        continue\n"
            "    p.requires_grad_(False)",
            8_906_728,
        ),
        ("for name, p in model.named_parameters():\n    if 'bias' in name:\n        p.requires_grad = False", None),
        ("for name, p in model.named_parameters():\n    if name in other():\n        p.requires_grad = False", None),
    ],
)
def test_what_is_frozen_is_counted_where_it_is_certain(change: str, trained: int | None) -> None:
    reading = _read(f"model = models.resnet18()\n{change}")
    network = Network(reading, reading.models[0])
    found = frozen_layers(reading, network)
    assert found.certain == (trained is not None)
    if trained is not None:
        assert network.total is not None
        assert network.total - found.parameters == trained


def _net(head: str, flat: str) -> str:
    return f"""
import torch
from torch import nn
from own import Pictures

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 5), nn.MaxPool2d(2), nn.Conv2d(8, 16, 5), nn.MaxPool2d(2))
        {head}

    def forward(self, x):
        x = self.body(x)
        return self.head({flat})

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(Pictures(), batch_size=16, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("flat", ["x.flatten(1)", "x.view(-1, 400)"])
def test_images_have_the_only_usual_size_that_the_layers_take(flat: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_net("self.head = nn.Linear(16 * 5 * 5, 10)", flat))
    memory = analyze(script, gpu="A100-40GB").memory
    assert memory is not None
    assert memory.assumed == "images of 32 x 32, the only usual size that the layers take"
    assert memory.fits == "yes"


def test_where_images_may_have_any_size_it_says_how_large_they_may_be(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_net("self.head = nn.Linear(16, 10)", "x.mean((2, 3))"))
    memory = analyze(script, gpu="A100-40GB").memory
    assert memory is not None
    assert memory.fits == "unknown"
    assert memory.reason is not None
    assert "the image size is not known; up to" in memory.reason
    assert "pixels fit" in memory.reason
