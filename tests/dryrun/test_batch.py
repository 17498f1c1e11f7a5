"""What a person says of a batch and of a model, in the place of what is missing."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.batch import Part, parse_assumptions, parse_batch
from preflight.dryrun.configurations import named
from preflight.dryrun.launch import Job, dry_run
from preflight.errors import InputError, UsageError


def test_a_batch_is_read_by_name_or_by_place() -> None:
    assert parse_batch("x: float32[8,3,224,224], y: int64[8]") == (
        Part("x", "float32", (8, 3, 224, 224)),
        Part("y", "int64", (8,)),
    )
    assert parse_batch("torch.half[2, 4]; long[2]") == (Part("", "float16", (2, 4)), Part("", "int64", (2,)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no tensor"),
        ("x float32[8]", "'x float32[8]' is not NAME: TYPE[SIZES]"),
        ("x: float32[8,3", "'x: float32[8,3' is not NAME: TYPE[SIZES]"),
        ("x: flot32[8]", "names the type flot32"),
        ("x: float32[8,-1]", "has the size '-1'"),
        ("x: float32[8], x: int64[8]", "names x twice"),
        ("x: float32[8], y: int64[4]", "different sizes"),
        ("x: float32[99999,99999,99999]", "elements"),
    ],
)
def test_a_batch_that_cannot_be_understood_is_one_error_with_the_part_and_a_way_out(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=r".+") as raised:
        parse_batch(text)
    assert said in str(raised.value)
    assert raised.value.hint


def test_assumptions_name_a_model_and_a_configuration(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"model_type": "gpt2", "n_layer": 2}))
    assumed = parse_assumptions([f"our/model={own}", "model=gpt2"])
    found = named(str(tmp_path / "train.py"), (), assumed)
    assert found["our/model"]["n_layer"] == 2
    assert found["model"]["model_type"] == "gpt2"
    for wrong in (["model"], ["=own.json"], ["model="], ["model=a.json", "model=b.json"]):
        with pytest.raises(UsageError):
            parse_assumptions(wrong)
    with pytest.raises(InputError, match="no_such_file"):
        named(str(tmp_path / "train.py"), (), {"model": "no_such_file.json"})


@pytest.mark.torch
@pytest.mark.slow
def test_batches_take_the_place_of_data_that_are_missing_and_of_those_only(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    text = """
        import os
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split
        from webdataset import WebLoader

        class Files(Dataset):
            def __init__(self, root):
                self.names = os.listdir(root)

            def __len__(self):
                return len(self.names)

            def __getitem__(self, index):
                return torch.load(self.names[index])

        model = nn.Linear(16, 4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train(loader, rows):
            seen = 0
            for x, y in loader:
                assert x.shape == (rows, 16) and y.dtype == torch.int64
                nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
                optimizer.step()
                optimizer.zero_grad()
                seen += 1
            assert seen > 1

        there = TensorDataset(torch.rand(12, 16), torch.zeros(12, dtype=torch.int64))
        train(DataLoader(there, batch_size=2), 2)
        part, _ = random_split(Files("/no/such/folder"), [0.9, 0.1])
        train(DataLoader(part, batch_size=4, shuffle=True, drop_last=True), 8)
        train(WebLoader("shards.tar", batch_size=4), 8)
    """
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    gpu = resolve_gpu("a100-80gb")
    job = Job(
        script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=80 << 30, seconds=120,
        batch=parse_batch("x: float32[8,16], y: int64[8]"),
    )  # fmt: skip
    seen = dry_run(job)
    assert seen.outcome in ("ended", "stopped"), (seen.error, seen.message, seen.frames)
    told = "; ".join(seen.assumptions)
    assert "data set Files could not be read (FileNotFoundError" in told
    assert "shards.tar is not there: batches of --batch took its place: x float32[8,16], y int64[8]" in told
    assert "TensorDataset" not in told
