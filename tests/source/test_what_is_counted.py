"""Networks whose layers are not all in the script have no count, and those built in a loop have the whole one."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import analyze

LOOP = """
opt = torch.optim.AdamW(model.parameters())
for x, y in loader:
    loss = model(x).mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
"""
CONFIG = """
class Config:
    def __init__(self, hidden=10):
        self.hidden = hidden
    @classmethod
    def load(cls, path):
        config = cls()
        with open(path) as file:
            values = json.load(file)
        {set}
        return config
config = Config.load(sys.argv[1])
model = nn.Linear(config.hidden, 10)
"""
ONE_BY_ONE = "for key, value in values.items():\n            "


def _parameters(tmp_path: Path, script: str) -> tuple[object, str]:
    path = tmp_path / "train.py"
    path.write_text(
        f"import json, sys, io, torch\nfrom torch import nn\nimport timm.models.swin_transformer as vits, timm.models.vision_transformer as plain_vits\n{script}{LOOP}"
    )
    fact = analyze(path).facts["model.parameters"]
    return fact.value, fact.reason or ""


def test_layers_put_into_a_table_one_by_one_are_counted(tmp_path: Path) -> None:
    script = """
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = nn.ModuleDict({"0": nn.Linear(3, 3)})
        for i in range(n):
            self.layers[str(i)] = nn.Linear(10, 10, bias=False)
model = Net(20)
"""
    assert _parameters(tmp_path, script)[0] == 2000


def test_a_table_with_names_from_outside_has_no_count(tmp_path: Path) -> None:
    script = """
class Net(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.layers = nn.ModuleDict()
        for name in names:
            self.layers[name] = nn.Linear(10, 10)
model = Net(json.load(open("names.json")))
"""
    value, reason = _parameters(tmp_path, script)
    assert value is None
    assert "names that are not known" in reason


@pytest.mark.parametrize("own", ["pass", "self.norm2 = nn.LayerNorm(768)"])
def test_a_network_that_extends_one_of_a_library_has_no_count(tmp_path: Path, own: str) -> None:
    script = f"""
class Net(vits.SwinTransformer):
    def __init__(self, **kw):
        super().__init__(**kw)
        {own}
model = Net(embed_dim=768)
"""
    value, reason = _parameters(tmp_path, script)
    assert value is None
    assert "SwinTransformer" in reason


def test_a_network_that_extends_one_that_is_drawn_is_counted(tmp_path: Path) -> None:
    script = """
class Net(plain_vits.VisionTransformer):
    def __init__(self, **kw):
        super().__init__(**kw)
        self.more = nn.LayerNorm(192)
model = Net(embed_dim=192, num_heads=3, num_classes=10)
"""
    assert _parameters(tmp_path, script)[0] == 5_524_416 + 192 * 10 + 10 + 2 * 192  # vit_tiny_patch16_224 of timm


def test_a_part_of_a_sequence_that_is_not_known_is_not_counted_as_nothing(tmp_path: Path) -> None:
    script = """
class Net(vits.SwinTransformer):
    def __init__(self, **kw):
        super().__init__(**kw)
model = Net(embed_dim=768)
model.head = nn.Sequential(nn.BatchNorm1d(768, affine=False), model.head)
model = model.head
"""
    assert _parameters(tmp_path, script)[0] is None


@pytest.mark.parametrize(
    "how",
    [
        ONE_BY_ONE + "setattr(config, key, value)",
        ONE_BY_ONE + "config.__dict__[key] = value",
        "config.__dict__.update(values)",
    ],
)
def test_defaults_that_a_file_replaces_are_not_what_will_be_used(tmp_path: Path, how: str) -> None:
    value, reason = _parameters(tmp_path, CONFIG.replace("{set}", how))
    assert value is None
    assert "file" in reason


def test_defaults_that_options_may_replace_stay(tmp_path: Path) -> None:
    script = CONFIG.replace("{set}", "pass")
    assert _parameters(tmp_path, script)[0] == 110


def test_parts_that_are_deleted_are_not_counted(tmp_path: Path) -> None:
    script = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.classifier = nn.Linear(10, 10), nn.Linear(10, 1000)
    def forward(self, x):
        return self.features(x)
def made():
    net = Net()
    del net.classifier
    return net
model = made()
"""
    assert _parameters(tmp_path, script)[0] == 110


def test_a_part_of_a_network_of_a_library_that_is_deleted_is_not_counted(tmp_path: Path) -> None:
    script = """
import torchvision
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torchvision.models.resnet18()
        del self.body.fc
        self.head = nn.Linear(512, 2, bias=False)
model = Net()
"""
    assert _parameters(tmp_path, script)[0] == 11_176_512 + 1024


def test_a_slice_of_a_sequence_is_its_layers(tmp_path: Path) -> None:
    script = """
whole = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5), nn.Linear(5, 6))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = whole[:-1]
model = Net()
"""
    assert _parameters(tmp_path, script)[0] == 3 * 4 + 4 + 4 * 5 + 5


def test_a_network_that_ends_at_a_part_is_counted_up_to_it(tmp_path: Path) -> None:
    script = """
import torchvision
from torchvision.models._utils import IntermediateLayerGetter
class Net(nn.Module):
    def __init__(self, name):
        super().__init__()
        body = getattr(torchvision.models, name)(replace_stride_with_dilation=[False, False, False])
        self.body = IntermediateLayerGetter(body, return_layers={"layer3": "0", "layer4": "1"})
        self.head = nn.Linear(2048, 2, bias=False)
model = Net("resnet50")
"""
    assert _parameters(tmp_path, script)[0] == 23_508_032 + 2 * 2048


def test_a_weight_that_is_put_in_the_place_of_another_fits(tmp_path: Path) -> None:
    script = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.offsets = nn.Linear(16, 8)
        self.offsets.bias = nn.Parameter(grid().view(-1))
    def forward(self, x):
        return self.offsets(x)
model = Net()
"""
    assert _parameters(tmp_path, script)[0] == 16 * 8 + 8


BLOCKS = """
class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.body = nn.Linear(n, n, bias=False)
        self.lora_down = nn.Linear(n, 2, bias=False)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(10) for _ in range(5)])
        self.head = nn.Linear(10, 3, bias=False)
model = Net()
"""


@pytest.mark.parametrize(
    ("frozen", "trained"),
    [
        ('for n, p in model.named_parameters():\n    if "lora_" not in n:\n        p.requires_grad = False\n', 5 * 20),
        ('for n, p in model.named_parameters():\n    if "blocks.1." in n:\n        p.requires_grad = False\n', 510),
        ("for p in model.blocks.parameters():\n    p.requires_grad = False\n", 30),
        ("model.blocks[0].requires_grad_(False)\n", 4 * 120 + 30),
        ('for n, p in model.named_parameters():\n    p.requires_grad = "head" in n\n', 30),
        ("model.requires_grad_(False)\n", None),  # what the optimizer trains is then somewhere else
    ],
)
def test_each_of_the_blocks_of_a_comprehension_is_frozen(tmp_path: Path, frozen: str, trained: int | None) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"import torch\nfrom torch import nn\n{BLOCKS}{frozen}{LOOP}")
    assert analyze(path).facts["model.trainable_parameters"].value == trained


def test_a_part_whose_class_is_chosen_elsewhere_makes_no_network_of_nothing(tmp_path: Path) -> None:
    script = """
import importlib
class Net(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.drop = inner, nn.Dropout()
    def forward(self, x):
        return self.drop(self.inner(x))
model = Net(getattr(importlib.import_module("nets"), sys.argv[1])())
"""
    value, reason = _parameters(tmp_path, script)
    assert value is None
    assert reason


def test_where_a_class_is_exchanged_what_is_frozen_is_not_certain(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(f"from torch import nn\n{BLOCKS}")
    (tmp_path / "adapters.py").write_text(
        "import nets\nfrom contextlib import contextmanager\nclass Adapted(nets.Block):\n    pass\n"
        "@contextmanager\ndef adapted():\n    before = nets.Block\n    nets.Block = Adapted\n    yield\n    nets.Block = before\n"
    )
    path = tmp_path / "train.py"
    path.write_text(
        "import torch, nets\nfrom adapters import adapted\nwith adapted():\n    model = nets.Net()\n"
        f"for n, p in model.named_parameters():\n    p.requires_grad = 'adapter' in n\n{LOOP}"
    )
    report = analyze(path)
    assert report.facts["model.trainable_parameters"].value is None
    assert not [f for f in report.findings if f.code == "OPT020"]


def test_what_puts_batches_together_is_no_part_of_a_network(tmp_path: Path) -> None:
    script = """
import transformers
class Net(nn.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.collator = transformers.DataCollatorForLanguageModeling(tokenizer)
        self.head = nn.Linear(10, 10, bias=False)
    def forward(self, x):
        return self.head(x)
model = Net(transformers.AutoTokenizer.from_pretrained("gpt2"))
"""
    assert _parameters(tmp_path, script)[0] == 100
