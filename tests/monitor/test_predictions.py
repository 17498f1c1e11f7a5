"""A dry run writes down what it saw, and the same script is watched: as it was, and with other arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.cli.command_line import run

pytestmark = pytest.mark.torch

SCRIPT = """
import sys

import torch
from torch import nn

width = int(sys.argv[1]) if len(sys.argv) > 1 else 16
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
for _ in range(4):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(4, 8, device=device)), torch.randint(0, 2, (4,), device=device))
    loss.backward()
    optimizer.step()
    schedule.step()
"""


def test_reality_is_held_against_the_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    asked = ("--gpu", "h100", "--dry-run", "--no-probe", "--no-what-fits", "--expectations", "expected.jsonl")
    assert run("check", "train.py", *asked) in (0, 1)
    written = [json.loads(line) for line in (tmp_path / "expected.jsonl").read_text().splitlines()]
    told = {one["id"]: one["subject"].get("value") for one in written}
    assert told["predicted-0.weight"] == "float32 16 x 8, trained"
    assert [told[f"predicted-rate-0-{step}"] for step in range(3)] == ["0.1", "0.05", "0.025"]
    capfd.readouterr()

    watched = ("monitor", "collect", "-o")
    for name, arguments in (("same", ()), ("wider", ("24",))):
        program = ("--", sys.executable, "train.py", *arguments)
        run(*watched, name, *program)
        run("monitor", "check", name, "--invariants", "expected.jsonl", "--format", "json", "-o", f"{name}.json")
    same, wider = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("same", "wider"))
    assert not same.get("violations")
    # Without a GPU its memory is not compared, and the report says so.
    assert any(
        note.startswith("memory-as-predicted judged nothing: nothing was allocated on a GPU") for note in same["notes"]
    )
    assert {one["relation"] for one in wider["violations"]} == {"parameters-as-predicted", "trained-as-predicted"}
    assert {
        (*one["variables"], one["expected"], one["seen"])
        for one in wider["violations"]
        if one["relation"] == "parameters-as-predicted"
    } == {
        ("model.0.bias", "float32 16, trained", "float32 24, trained"),
        ("model.0.weight", "float32 16 x 8, trained", "float32 24 x 8, trained"),
        ("model.2.weight", "float32 2 x 16, trained", "float32 2 x 24, trained"),
    }
