"""A dry run without a launch line: scripts that only a launcher can start are started as by one, with one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.asked import Device, Options
from preflight.check.dry_run import added
from preflight.dryrun.launch import Job
from preflight.source.launcher import Launch, parse_launch
from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.vocabulary.profile import Profile

SCRIPT = """
import os, torch
import torch.distributed as dist
from torch import nn
BEGIN
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in batches:
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
"""


def _started(
    folder: Path, begin: str, launch: Launch, monkeypatch: pytest.MonkeyPatch, gpus: int | None = None
) -> tuple[dict[str, str], Profile]:
    """The environment of the process that is started, and the profile."""
    path = folder / "train.py"
    path.write_text(SCRIPT.replace("BEGIN", begin))
    jobs: list[Job] = []

    def run(job: Job) -> Profile:
        jobs.append(job)
        return Profile(outcome="ended")

    monkeypatch.setattr("preflight.dryrun.launch.dry_run", run)
    script = read_script(path)
    options = Options(gpu="a100", gpus=gpus, probe=False)
    profile = added.run(script, read(script), options, Device(resolve_gpu("a100"), 80 << 30, "A100"), launch)
    return jobs[0].environment, profile


@pytest.mark.parametrize("begin", ['dist.init_process_group("nccl")', 'dist.init_process_group(init_method="env://")'])
def test_a_script_that_joins_a_group_is_started_as_by_a_launcher(
    tmp_path: Path, begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, profile = _started(tmp_path, begin, Launch(), monkeypatch)
    assert (environment["RANK"], environment["LOCAL_RANK"], environment["WORLD_SIZE"]) == ("0", "0", "1")
    assert profile.assumptions[0].startswith("no launch line was given: started as torchrun --nproc_per_node 1")


@pytest.mark.parametrize(
    "begin",
    [
        'if "RANK" in os.environ:\n    dist.init_process_group("nccl")',
        'dist.init_process_group("nccl", init_method="tcp://localhost:2000")',
        'dist.init_process_group("nccl", rank=0, world_size=1)',
        "pass",
    ],
)
def test_others_are_started_as_they_are(tmp_path: Path, begin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, profile = _started(tmp_path, begin, Launch(), monkeypatch)
    assert "RANK" not in environment
    assert profile.assumptions == ()


def test_what_the_person_says_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = 'dist.init_process_group("nccl")'
    given = parse_launch("torchrun --nproc_per_node 2 train.py")
    environment, profile = _started(tmp_path, begin, given, monkeypatch)
    assert (environment["WORLD_SIZE"], profile.assumptions) == ("2", ())
    environment, profile = _started(tmp_path, begin, Launch(), monkeypatch, gpus=4)
    assert (environment["WORLD_SIZE"], profile.assumptions) == ("4", ())
