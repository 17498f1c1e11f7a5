"""Conditions that hang on numbers which a virtual GPU does not have."""

from __future__ import annotations

from pathlib import Path

from preflight.check.context import Context
from preflight.check.dry_run.plausible_branches import branches
from preflight.check.observed.run import Run
from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.seen import Observation

SCRIPT = """\
import torch
def validate(model, best):
    if torch.isnan(model.loss):
        raise SystemExit
    value = model.loss.item()
    if value < best:
        best = value
    while best > 3:
        best -= 1
    other = model.size()
    if other:
        pass
    return value if value else None
"""


def _wait(line: int, kind: str = "item") -> Observation:
    return Observation("wait", line, f"train.py:{line}", "", "forward", 1, data={"kind": kind, "direct": True})


def _run(folder: Path, *waits: Observation) -> Run:
    path = folder / "train.py"
    path.write_text(SCRIPT)
    reading = read(read_script(path))
    return Run(Profile(outcome="ended", observations=waits), Context(reading, {}))


def test_a_condition_that_reads_itself_and_one_that_uses_what_was_read(tmp_path: Path) -> None:
    run = _run(tmp_path, _wait(3), _wait(5))
    assert [place.rpartition(":")[2] for place in branches(run)] == ["3", "6", "13"]


def test_a_wait_that_reads_nothing_decides_nothing(tmp_path: Path) -> None:
    assert branches(_run(tmp_path, _wait(5, "torch.cuda.synchronize"), _wait(10, "torch.cuda.empty_cache"))) == []


def test_the_condition_of_a_loop_is_asked_again_after_what_is_read_inside(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("loss = 9\nwhile loss > 1:\n    out = step()\n    loss = out.item()\nwhile out:\n    pass\n")
    run = Run(Profile(outcome="ended", observations=(_wait(4),)), Context(read(read_script(path)), {}))
    assert [place.rpartition(":")[2] for place in branches(run)] == ["2"]
