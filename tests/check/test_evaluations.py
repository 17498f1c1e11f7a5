"""What an evaluation does to memory and modes where the network is one of a library."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import analyze
from preflight.vocabulary.report import Report

TRAIN = """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

def evaluate(model, loader):
    MODE
    correct = 0
    for x, y in loader:
        BODY
    return correct

shape = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
fixed = transforms.Compose([transforms.CenterCrop(224), transforms.ToTensor()])
train = DataLoader(datasets.ImageFolder("train", shape), batch_size=64, shuffle=True, num_workers=8)
held_out = DataLoader(datasets.ImageFolder("val", fixed), batch_size=64, num_workers=8)
model = models.resnet50().cuda()
optimizer = torch.optim.SGD(TRAINED, lr=0.1)
for epoch in range(10):
    for x, y in train:
        optimizer.zero_grad()
        FORWARD
        loss.backward()
        optimizer.step()
    print(evaluate(model, held_out))
"""
PLAIN = "loss = F.cross_entropy(model(x.cuda()), y.cuda())"
AUTOCAST = 'with torch.autocast("cuda", dtype=torch.bfloat16): ' + PLAIN
AT_ONCE = "correct += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()"
NAMED = "out = model(x.cuda()); correct += (out.argmax(1) == y.cuda()).sum().item()"
DELETED = NAMED + "; del out"
OVERWRITTEN = "out = model(x.cuda()); out = out.argmax(1); correct += (out == y.cuda()).sum().item()"
COMPUTED = "out = F.cross_entropy(model(x.cuda()), y.cuda()) / 2; correct += out.item()"
MEASURED = "out = model(x.cuda()).shape; correct += out[0]"
UNDER_AUTOCAST = f'with torch.autocast("cuda", dtype=torch.bfloat16): {NAMED}'
NO_GRAD = f"with torch.no_grad(): {NAMED}"
GRAPH = 64 * 21_276_672 * 4
"""What a ResNet-50 keeps of 64 pictures in float32, in bytes."""


def checked(tmp_path: Path, *, mode: str = "model.eval()", body: str = AT_ONCE, forward: str = PLAIN,
            trained: str = "model.parameters()", gpu_memory: float | None = None) -> Report:  # fmt: skip
    text = TRAIN.replace("MODE", mode).replace("BODY", body).replace("FORWARD", forward).replace("TRAINED", trained)
    (tmp_path / "train.py").write_text(text)
    return analyze(tmp_path / "train.py", gpu_memory=gpu_memory, persona="audit")


def of_evaluation(report: Report) -> float:
    """Return what lives in the evaluation."""
    assert report.memory is not None
    (found,) = [point.owners["activations"] for point in report.memory.timeline if point.phase == "eval"]
    return found / GRAPH


@pytest.mark.parametrize(
    ("body", "graphs"),
    [(AT_ONCE, 1), (NAMED, 2), (DELETED, 1), (OVERWRITTEN, 1), (COMPUTED, 2), (MEASURED, 1)],
    ids=["nothing holds it", "a variable holds it", "deleted", "overwritten", "a sum holds it", "a size holds nothing"],
)
def test_an_evaluation_with_gradients_keeps_its_graph_and_that_of_the_batch_before(
    tmp_path: Path, body: str, graphs: int
) -> None:
    assert of_evaluation(checked(tmp_path, body=body)) == pytest.approx(graphs, rel=0.01)


def test_a_single_batch_has_none_before(tmp_path: Path) -> None:
    text = TRAIN.replace("MODE", "model.eval()").replace("BODY", NAMED).replace("FORWARD", PLAIN)
    folder = 'datasets.ImageFolder("val", fixed)'
    assert folder in text
    one = text.replace(folder, "torch.utils.data.TensorDataset(torch.randn(64, 3, 224, 224), torch.zeros(64).long())")
    (tmp_path / "train.py").write_text(one.replace("TRAINED", "model.parameters()"))
    assert of_evaluation(analyze(tmp_path / "train.py")) == pytest.approx(1, rel=0.01)


def test_without_gradients_it_keeps_no_graph(tmp_path: Path) -> None:
    assert of_evaluation(checked(tmp_path, body=NO_GRAD)) < 0.75


def test_a_few_samples_with_gradients_are_no_evaluation_of_the_largest_batch(tmp_path: Path) -> None:
    shown = "\nshown = DataLoader(held_out.dataset, batch_size=2)\nfor x, y in shown:\n    out = model(x.cuda())\n"
    (tmp_path / "train.py").write_text(
        TRAIN.replace("MODE", "model.eval()")
        .replace("BODY", NO_GRAD)
        .replace("FORWARD", PLAIN)
        .replace("TRAINED", "model.parameters()")
        + shown
    )
    assert of_evaluation(analyze(tmp_path / "train.py")) < 0.75


@pytest.mark.parametrize(("body", "share"), [(NAMED, 2.0), (UNDER_AUTOCAST, 1.0)])
def test_outside_of_the_autocast_of_the_training_it_keeps_twice_as_much(
    tmp_path: Path, body: str, share: float
) -> None:
    assert of_evaluation(checked(tmp_path, forward=AUTOCAST, body=body)) == pytest.approx(share, rel=0.1)


def test_where_it_alone_runs_out_the_hint_is_to_turn_gradients_off(tmp_path: Path) -> None:
    report = checked(tmp_path, body=NAMED, forward=AUTOCAST, gpu_memory=8)
    (found,) = [one for one in report.findings if one.code == "MEM002"]
    assert "runs out in the evaluation" in found.message
    assert found.fix is not None
    assert found.fix.title == "turn gradients off in the evaluation"
    mended = checked(tmp_path, body=NO_GRAD, forward=AUTOCAST, gpu_memory=8)
    assert mended.memory is not None
    assert mended.memory.fits == "yes"


@pytest.mark.parametrize(
    ("mode", "trained", "code", "confidence"),
    [
        ("model.eval()", "model.parameters()", "MOD001", "likely"),
        ("model.eval()", "model.fc.parameters()", "MOD001", "possible"),
        ("pass", "model.parameters()", "MOD002", "likely"),
    ],
    ids=["left in eval mode", "a head on a frozen network", "evaluated in train mode"],
)
def test_a_network_that_is_known_to_hold_batch_norm_holds_it(
    tmp_path: Path, mode: str, trained: str, code: str, confidence: str
) -> None:
    found = {one.code: one for one in checked(tmp_path, mode=mode, trained=trained).findings}
    assert found[code].confidence == confidence


_RECOMPUTED = """
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config()).cuda()
model.gradient_checkpointing_enable()
rows = TensorDataset(torch.randint(0, 50257, (1000, 512)))
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    model.train()
    for (x,) in DataLoader(rows, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        model(x.cuda(), labels=x.cuda()).loss.backward()
        optimizer.step()
    MODE
    print(sum(model(x.cuda(), labels=x.cuda()).loss.item() for (x,) in DataLoader(rows, batch_size=8)))
"""


def test_a_model_of_transformers_recomputes_nothing_in_evaluation_mode(tmp_path: Path) -> None:
    found = {}
    for mode in ("model.eval()", "pass"):
        (tmp_path / "train.py").write_text(_RECOMPUTED.replace("MODE", mode))
        found[mode] = of_evaluation(analyze(tmp_path / "train.py"))
    assert found["model.eval()"] > 5 * found["pass"]
