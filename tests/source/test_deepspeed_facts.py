"""What DeepSpeed's configuration and its own loader tell of the batch; what groups tell of the learning rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from preflight import analyze
from preflight.vocabulary.fact import Fact

ENGINE = """
import deepspeed, torch
from torch.utils.data import DataLoader
net = torch.nn.Linear(3, 3)
config = {CONFIG}
engine, _, loader, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), training_data=data, config=config)
for x, y in DataLoader(test, batch_size=4):
    print(engine(x))
for x, y in loader:
    engine.backward(engine(x).mean())
    engine.step()
"""


def _facts(tmp_path: Path, script: str, **options: object) -> dict[str, Fact]:
    path = tmp_path / "train.py"
    path.write_text(script)
    return dict(analyze(path, **options).facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("gpus", "micro"), [(1, 64), (8, 8)])
def test_the_batch_of_all_gpus_is_divided_over_them(tmp_path: Path, gpus: int, micro: int) -> None:
    facts = _facts(tmp_path, ENGINE.replace("{CONFIG}", '{"train_batch_size": 64}'), gpus=gpus)
    assert facts["batch.micro"].value == micro


def test_a_loader_that_the_engine_makes_has_no_default_batch(tmp_path: Path) -> None:
    facts = _facts(tmp_path, ENGINE.replace("{CONFIG}", "make()"))
    assert facts["batch.micro"].value is None
    assert facts["dataloader.num_workers"].value is None


def test_the_learning_rate_of_the_first_group_is_the_one_that_is_used(tmp_path: Path) -> None:
    script = """
import torch
net = torch.nn.Linear(3, 3)
opt = torch.optim.AdamW([{"params": net.parameters(), "lr": 3e-4}], weight_decay=0.1)
for x in loader:
    opt.zero_grad()
    net(x).mean().backward()
    opt.step()
"""
    assert _facts(tmp_path, script)["optimizer.lr"].value == 3e-4


def test_a_configuration_of_attention_is_no_optimizer(tmp_path: Path) -> None:
    script = """
from deepspeed.ops.sparse_attention import FixedSparsityConfig
import torch
sparse = FixedSparsityConfig(num_heads=4)
net = torch.nn.Linear(3, 3)
for x in loader:
    net(x).mean().backward()
"""
    assert _facts(tmp_path, script)["optimizer.name"].value is None


def test_what_is_handed_over_by_place_comes_back(follow: Any) -> None:
    followed = follow("import deepspeed\n*_, schedule = deepspeed.initialize(None, net, None, None, None, 5, 6)\n")
    assert followed["schedule"] == 5
