"""What is an error and what is a warning only, of rules that tell both."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.session import check_text

HALVES = """
import torch
from torch import nn
body, head = nn.Linear(8, 8), nn.Linear(8, 2)
{0}
optimizer = torch.optim.Adam({1}.parameters())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(body(x)), y).backward()
    optimizer.step()
"""

EVALUATED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def rows(count):
    return TensorDataset(torch.randn(count, 10), torch.randint(2, (count,)))
first = rows(80)
{0}
train, val = DataLoader(first, batch_size=8, shuffle=True), DataLoader(first, batch_size=8)
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in train:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
with torch.no_grad():
    for x, y in val:
        print((model(x).argmax(1) == y).sum())
"""


def severities(folder: Path, text: str, rule: str) -> list[str]:
    (folder / "train.py").write_text(text)
    report = check_text(folder / "train.py", Options())
    return [found.severity for found in report.findings if found.rule == rule]


@pytest.mark.parametrize(
    ("line", "severity"),
    [("", "error"), ("other = nn.Linear(4, 4).requires_grad_(False)", "warning"), ("# the body is fixed", "warning")],
)
def test_a_fresh_layer_without_an_optimizer_is_an_error_where_nothing_may_be_meant_to_rest(
    tmp_path: Path, line: str, severity: str
) -> None:
    assert severities(tmp_path, HALVES.format(line, "body"), "parameters-without-optimizer") == [severity]


def test_a_fresh_layer_below_what_is_trained_may_be_there_for_random_features(tmp_path: Path) -> None:
    assert severities(tmp_path, HALVES.format("", "head"), "parameters-without-optimizer") == ["warning"]


@pytest.mark.parametrize(("line", "found"), [("", []), ("second = rows(20)\nprint(len(second))", ["error"])])
def test_an_evaluation_on_drawn_training_data_is_an_error_beside_data_that_nothing_reads(
    tmp_path: Path, line: str, found: list[str]
) -> None:
    assert severities(tmp_path, EVALUATED.format(line), "evaluation-on-training-data") == found


LOADERS = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T
train = DataLoader(datasets.MNIST("x", train=True, transform=T.ToTensor()), batch_size=8, shuffle=True)
val = DataLoader(datasets.MNIST("x", train=False, transform=T.ToTensor()), batch_size=8)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in train:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
with torch.no_grad():
    for x, y in {}:
        print((model(x).argmax(1) == y).sum())
"""


@pytest.mark.parametrize(("loader", "found"), [("train", ["error"]), ("val", [])])
def test_an_evaluation_that_leaves_the_loader_of_held_out_data_unread_is_an_error(
    tmp_path: Path, loader: str, found: list[str]
) -> None:
    assert severities(tmp_path, LOADERS.format(loader), "evaluation-on-training-data") == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("print((model(x).argmax(1) == y).sum())", ["error"]),
        ("print('training accuracy', (model(x).argmax(1) == y).sum())", ["warning"]),
        ("train_right = (model(x).argmax(1) == y).sum()", ["warning"]),
        ("print('accuracy', (model(x).argmax(1) == y).sum())", ["error"]),
    ],
)
def test_a_result_that_is_called_one_of_the_training_data_is_no_error(
    tmp_path: Path, line: str, found: list[str]
) -> None:
    script = LOADERS.format("train").replace("print((model(x).argmax(1) == y).sum())", line)
    assert severities(tmp_path, script, "evaluation-on-training-data") == found
