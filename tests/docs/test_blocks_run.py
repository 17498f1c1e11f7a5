"""Commands of the guides in blocks without an output are run, in a folder that has what they name."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .test_commands_shown import PAGES, ROOT, _in_blocks

pytestmark = [pytest.mark.slow, pytest.mark.torch]

LEFT = {
    "preflight ui": "serves until somebody ends it: tests/cli/ui",
    "preflight sbatch ": "needs Slurm: tests/cli/test_sbatch.py",
    "preflight investigate hang": "needs ranks that hang: tests/investigate/hang",
    "preflight investigate fix ": "asks a person: tests/cli/test_investigate_fix.py",
    "preflight investigate logs --follow": "looks on until the run ends: tests/investigate/test_follow.py",
    "preflight investigate ask logs --endpoint https": "needs a server of others",
    "preflight investigate triage --live": "goes to nodes by their names: tests/investigate/triage",
    "preflight investigate triage --store": "goes to a node by its name: tests/investigate/liveness",
    "preflight investigate doctor --compare": "needs the snapshots of several ranks: a console block beside it is run",
    "preflight investigate topology": "needs several ranks; with --ranks it is run",
    "preflight investigate logs --signatures": "what it names is a draft, once somebody has said what it means",
    "preflight investigate probe --ranks": "takes its time, and is one of many forms: tests/investigate/probes",
    "preflight investigate probe compute": "takes its time, and is one of many forms: tests/investigate/probes",
    "preflight plan --model unet": "needs the configuration of a network of others: tests/plan/test_networks.py",
    "preflight plan calibrate readings.json": "needs a measurement of a GPU: tests/plan/calibration",
}
"""What is not run here, by how it begins, and why; with more words behind it, the longest beginning counts."""
RUN = ("preflight investigate topology --ranks",)
"""Run, although a shorter beginning is left out."""
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 256, "max_position_embeddings": 64,
}  # fmt: skip


def _left(line: str) -> str | None:
    """Why a command is not run."""
    known = [start for start in (*LEFT, *RUN) if line.startswith(start)]
    return LEFT.get(max(known, key=len)) if known else None


def _whole(text: str) -> list[str]:
    """The lines of a page that hold our commands, as they are typed: what stands behind ``--`` is kept."""
    return [" ".join(line.split()) for line in _in_blocks(text)]


COMMANDS = {page: lines for page in PAGES if (lines := _whole(page.read_text("utf-8")))}


def test_nothing_is_left_out_that_is_not_there() -> None:
    shown = [line for lines in COMMANDS.values() for line in lines]
    assert not [start for start in (*LEFT, *RUN) if not any(line.startswith(start) for line in shown)]
    assert sum(_left(line) is None for line in shown) > len(shown) // 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a training script, logs, and the programs that the guides name."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shutil.copy(ROOT / "examples" / "monitor" / "train.py", tmp_path / "train.py")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "alert-test.log").write_text("the pager rang\n")
    rows = [f"step {step} | loss {5 - step / 100:.3f} | step_time: {2 + step % 7 / 100:.3f}" for step in range(200)]
    (tmp_path / "train.log").write_text("\n".join(rows))
    for name in ("logs", "more"):
        (tmp_path / name).mkdir()
        shutil.copy(ROOT / "examples" / "incidents" / "out-of-memory.log", tmp_path / name)
    subprocess.run(["tar", "czf", "run.tar.gz", "logs"], cwd=tmp_path, check=True)
    (tmp_path / "incident.json").write_text(_run("preflight investigate logs --format json", tmp_path).stdout)
    return tmp_path


def _programs(folder: Path) -> str:
    """Put scripts of ours into the folder, under the names that a reader types; their folder."""
    for place in (folder / "bin", folder / "envs" / "train" / "bin"):
        place.mkdir(parents=True, exist_ok=True)
        for name, options in (
            ("preflight", " -m preflight"),
            ("python", ""),
            ("torchrun", " -m torch.distributed.run"),
        ):
            (place / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{options} "$@"\n')
            (place / name).chmod(0o755)
    return str(folder / "bin")


def _run(line: str, folder: Path) -> Any:
    """Run a command as a shell would, two ranks where the guide has more."""
    line = re.sub(r"(--nproc[_-]per[_-]node[ =])\d+", r"\g<1>2", line)
    environment = {**os.environ, "HOME": str(folder), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    environment["PATH"] = f"{_programs(folder)}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8",
        stdin=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip


def _pages() -> list[Any]:
    runs = {page: [line for line in lines if _left(line) is None] for page, lines in COMMANDS.items()}
    return [pytest.param(lines, id=page.relative_to(ROOT).as_posix()) for page, lines in runs.items() if lines]


@pytest.mark.skipif(os.name == "nt", reason="the pages show a POSIX shell")
@pytest.mark.parametrize("lines", _pages())
def test_the_commands_of_a_page_do_what_they_are_for(lines: list[str], folder: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    for line in lines:
        if " -o trace " in line:
            shutil.rmtree(folder / "trace", ignore_errors=True)  # a second start would be refused
        done = _run(line, folder)
        # 0 and 1 are answers, as is 3; 2 says that the tool failed or was misused.
        assert done.returncode in (0, 1, 3), f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert "internal error" not in done.stderr, line
