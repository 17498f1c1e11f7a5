"""The reasons of the score, and where recommendations say a change belongs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from preflight import analyze

SCRIPT = """\
import torch
import torchvision
from torch.utils.data import DataLoader

data = torchvision.datasets.ImageFolder("train", torchvision.transforms.ToTensor())
model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for images, labels in DataLoader(data, batch_size=64, shuffle=True):
    loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_reason_that_is_not_listed_names_the_rule_and_the_line(script: Path) -> None:
    regular, pedantic = analyze(script), analyze(script, persona="pedantic")
    assert regular.efficiency is not None
    assert pedantic.efficiency is not None
    assert regular.efficiency.score == pedantic.efficiency.score
    listed = {finding.code for finding in regular.findings}
    hidden = [f for f in pedantic.findings if f.code.startswith("EFF") and f.code not in listed]
    told = " ".join(part.reason for part in regular.efficiency.parts)
    assert hidden
    for finding in hidden:
        if finding.code in told:
            assert f"(not listed: {finding.rule}, line {finding.location.line})" in told
    assert "not listed" in told
    assert "not listed" not in " ".join(part.reason for part in pedantic.efficiency.parts)


def test_a_recommendation_for_a_notebook_names_the_cell(tmp_path: Path) -> None:
    first, second = SCRIPT.split("model = ")
    cells = [{"cell_type": "code", "source": text} for text in (first, "model = " + second)]
    book = tmp_path / "book.ipynb"
    book.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    report = analyze(book)
    workers = next(f for f in report.findings if f.code == "EFF002")
    assert workers.location.cell == 2
    assert any(f"(book.ipynb:cell 2:{workers.location.line})" in r.change.replace(f"{tmp_path}/", "")
               for r in report.recommendations)  # fmt: skip


def test_a_part_whose_rules_lacked_facts_is_left_out(script: Path) -> None:
    named, unnamed = analyze(script, gpu="a100-40gb"), analyze(script)
    assert named.efficiency is not None
    assert unnamed.efficiency is not None
    # How busy a batch keeps a GPU is known where the GPU is.
    assert {part.name for part in named.efficiency.parts} - {part.name for part in unnamed.efficiency.parts} == {
        "batch"
    }


def test_where_hardly_a_rule_could_be_evaluated_there_is_no_score(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "from transformers import AutoModel, Trainer, TrainingArguments\n"
        "model = AutoModel.from_pretrained('gpt2')\n"
        "Trainer(model=model, args=TrainingArguments('out')).train()\n"
    )
    report = analyze(path)
    assert report.efficiency is None
    assert any("efficiency has no score" in note for note in report.notes)
