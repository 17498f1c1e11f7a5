"""What an upper or a lower bound of the memory decides, and what is said where the peak is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import analyze
from preflight.check.specs import model_spec
from preflight.report.render import render
from preflight.source.facts.gather import gather
from preflight.source.launcher import Launch
from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.vocabulary.report import Report

_SOME_FROZEN = """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("{name}", torch_dtype=torch.bfloat16)
for name, weight in model.named_parameters():
    if not wanted(name):
        weight.requires_grad = False
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5)
for batch in DataLoader(dataset, batch_size=1):
    batch = batch[:, :{length}]
    model(batch, labels=batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def _report(tmp_path: Path, script: str, gpu: str) -> Report:
    path = tmp_path / "train.py"
    path.write_text(script)
    return analyze(path, gpu=gpu)


@pytest.mark.parametrize(
    ("name", "gpu", "fits", "verdict"),
    [
        ("meta-llama/Llama-2-13b-hf", "a100-80gb", "unknown", "UNKNOWN"),  # trained 97 GiB, the weights alone 24
        ("meta-llama/Llama-2-13b-hf", "t4", "no", "NO-GO"),
        ("gpt2-xl", "t4", "unknown", "UNKNOWN"),
        ("gpt2-xl", "a100-80gb", "yes", "GO"),
    ],
)
def test_where_some_may_be_frozen_only_the_weights_are_certain_to_take_room(
    tmp_path: Path, name: str, gpu: str, fits: str, verdict: str
) -> None:
    report = _report(tmp_path, _SOME_FROZEN.format(name=name, length=64), gpu)
    assert report.memory is not None
    assert (report.memory.fits, report.verdict) == (fits, verdict)


def test_a_figure_for_all_parameters_is_said_to_be_one(tmp_path: Path) -> None:
    report = _report(tmp_path, _SOME_FROZEN.format(name="gpt2", length=64), "a100-80gb")
    assert report.memory is not None
    assert report.memory.assumed == "a run that trains all parameters"
    assert (
        "the memory is that of a run that trains all parameters: how many this one trains is not known" in report.notes
    )
    assert "\n  of a run that trains all parameters:\n  peak (allocated)" in render(report, "text")


def test_no_margin_is_asked_of_a_figure_for_parameters_that_may_be_frozen(tmp_path: Path) -> None:
    script = _SOME_FROZEN.format(name="gpt2-xl", length=64).replace("batch[:, :64]", "torch.randint(0, 50257, (1, 64))")
    report = _report(tmp_path, script, "t4")
    assert report.memory is not None
    assert report.memory.device_bytes is not None
    assert report.memory.fits == "unknown"
    assert report.memory.device_bytes.mid > 0.9 * 15e9
    assert "MEM006" not in {finding.code for finding in report.findings}


_BROKEN = """
import torch
import other
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear({width}, {width})
    def forward(self, x):
        return other.mix(self.one(x))
net = Net()
optimizer = torch.optim.{optimizer}
for x in torch.utils.data.DataLoader(dataset, batch_size=8):
    net(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("optimizer", "times", "parts"),
    [
        ("Adam(net.parameters())", 4, "parameters, gradients and optimizer states need"),
        ("SGD(net.parameters(), lr=0.1)", 2, "parameters, gradients and optimizer states need"),
        ("of_ours(net.parameters())", 2, "parameters and gradients need"),
    ],
)
def test_what_the_states_take_is_said_where_the_activations_are_not_known(
    tmp_path: Path, optimizer: str, times: int, parts: str
) -> None:
    report = _report(tmp_path, _BROKEN.format(width=1000, optimizer=optimizer), "t4")
    memory = report.memory
    assert memory is not None
    assert memory.peak_bytes is None
    assert memory.least_bytes == pytest.approx(times * 4 * (1000 * 1000 + 1000), rel=0.001)
    assert parts in (memory.reason or "")
    assert "which leaves" in (memory.reason or "")


_NAMES = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--net", default="small")
args = parser.parse_args()
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
    def forward(self, x):
        return self.body(x)
class Large(Small):
    def __init__(self):
        super().__init__()
        self.more = nn.Linear(5, 5)
if args.net == "large":
    net = Large()
    data = datasets.CIFAR10("x", transform=transforms.Compose([transforms.Resize(320), transforms.ToTensor()]))
    loader = DataLoader(data, batch_size=512)
else:
    net = Small()
    data = datasets.CIFAR10("x", transform=transforms.Compose([transforms.Resize(48), transforms.ToTensor()]))
    loader = DataLoader(data, batch_size=16)
net = net.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in enumerate(loader):
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_networks_and_data_that_the_defaults_do_not_lead_to_are_none_of_the_run(tmp_path: Path) -> None:
    report = _report(tmp_path, _NAMES, "t4")
    assert report.facts["model.parameters"].value == (3 * 9 * 4 + 4) + (4 * 10 + 10)
    assert report.facts["image_size"].value == 48
    assert report.facts["batch.micro"].value == 16
    assert "several networks" not in " ".join(report.notes)


def test_the_row_that_a_later_layer_takes_is_no_picture(tmp_path: Path) -> None:
    script = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(32, 8)
        self.one, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
    def forward(self, x, t):
        return self.two(self.one(x) + self.step(t)[:, :, None, None])
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.utils.data.DataLoader(dataset, batch_size=8):
    net(x, torch.randn(len(x), 32)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    report = _report(tmp_path, script, "t4")
    assert report.memory is not None
    assert "what Conv2d is given" not in (report.memory.reason or "")


_THAWED = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[layer for _ in range(9) for layer in (nn.Linear(64, 64), nn.Tanh())])
        self.head = nn.Linear(64, 2)
    def forward(self, x):
        return self.head(self.body(x))
net = Net()
for weight in net.body.parameters():
    weight.requires_grad = False
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(10):
    THAW
    for x, y in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(99, 64), torch.rand(99)), batch_size=8):
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
"""
_THAW = """if epoch == 5:
        for weight in net.body.parameters():
            weight.requires_grad = True"""


@pytest.mark.parametrize(("thaw", "tensors"), [("pass", 6), (_THAW, 10)])
def test_layers_that_are_thawed_later_keep_what_they_are_given(tmp_path: Path, thaw: str, tensors: int) -> None:
    path = tmp_path / "train.py"
    path.write_text(_THAWED.replace("THAW", thaw))
    reading = read(read_script(path))
    model = model_spec(reading, gather(reading, Launch(), None))
    assert model is not None
    assert model.activation_elements == tensors * 64


_MIXED = """
import torch
import other
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("gpt2")
def encode(rows):
    return tokenizer(rows["text"], truncation=True, padding="max_length", max_length=256)
arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=4, bf16=other.wanted())
Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=arguments, train_dataset=rows.map(encode)).train()
"""


def test_a_run_that_fits_in_either_precision_fits(tmp_path: Path) -> None:
    peaks = {}
    for name, wanted in (("unknown", "other.wanted()"), ("full", "False"), ("mixed", "True")):
        memory = _report(tmp_path, _MIXED.replace("other.wanted()", wanted), "a100-80gb").memory
        assert memory is not None
        assert memory.peak_bytes is not None
        assert memory.fits == "yes"
        peaks[name] = memory.peak_bytes.mid
    assert peaks["unknown"] == max(peaks["full"], peaks["mixed"])


def test_where_one_precision_may_not_fit_nothing_is_decided(tmp_path: Path) -> None:
    script = _MIXED.replace("batch_size=4", "batch_size=190")
    fits = {}
    for name, wanted in (("unknown", "other.wanted()"), ("full", "False"), ("mixed", "True")):
        memory = _report(tmp_path, script.replace("other.wanted()", wanted), "a100-80gb").memory
        assert memory is not None
        fits[name] = memory.fits
    assert fits == {"unknown": "unknown", "full": "no", "mixed": "yes"}


_OF_UNKNOWN_WORDS = """
import torch
from torch import nn
from torch.nn import functional as F
words = sorted(set(open("input.txt").read()))
class Net(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.table, self.head = nn.Embedding(count, 1024), nn.Linear(1024, count)
        self.body = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range({depth})])
    def forward(self, x):
        return self.head(self.body(self.table(x)))
net = Net(len(words))
optimizer = torch.optim.AdamW(net.parameters())
for x, y in torch.utils.data.DataLoader(dataset, batch_size=8):
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(("depth", "verdict"), [(10, "UNKNOWN"), (1200, "NO-GO")])
def test_layers_of_known_size_decide_where_they_alone_do_not_fit(tmp_path: Path, depth: int, verdict: str) -> None:
    report = _report(tmp_path, _OF_UNKNOWN_WORDS.format(depth=depth), "t4")
    least = depth * (1024 * 1024 + 1024)
    assert report.facts["model.parameters"].value is None
    assert report.facts["model.parameters_at_least"].value == least
    assert report.memory is not None
    assert report.memory.least_bytes == pytest.approx(16 * least, rel=0.001)
    assert report.verdict == verdict


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("net = Net(len(words))\n", "net = Net(len(words))\n", 1200),
        (
            "AdamW(net.parameters())",
            "AdamW(net.head.parameters())",
            None,
        ),  # who trains one layer keeps no states of the others
        ("        self.body =", "        if other.load().big:\n            self.more =", 0),
    ],
)
def test_only_what_a_run_surely_holds_is_in_a_figure_of_parts(
    tmp_path: Path, before: str, after: str, parts: int | None
) -> None:
    script = "import other\n" + _OF_UNKNOWN_WORDS.format(depth=1200)
    assert before in script
    report = _report(tmp_path, script.replace(before, after), "t4")
    least = report.memory.least_bytes if report.memory is not None else None
    layer = 1024 * 1024 + 1024
    assert (least or 0) == pytest.approx(4 * 1200 * layer if parts is None else 16 * parts * layer, rel=0.001)
    assert report.verdict == ("NO-GO" if parts else "UNKNOWN")
