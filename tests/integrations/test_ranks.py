"""Several ranks: one folder that nobody has named, every rank in it, and one rank that judges and tells."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch")

pytestmark = pytest.mark.torch
SCRIPT = Path(__file__).resolve().parent / "scripts" / "ranks.py"


def test_every_rank_is_recorded_into_one_folder_and_the_first_tells(tmp_path: Path) -> None:
    if not all(map(importlib.util.find_spec, ("tensorboard", "prometheus_client"))):
        pytest.skip("needs torch, tensorboard and prometheus_client")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(SCRIPT)]
    ended = subprocess.run(launch, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-4000:]
    folders = sorted((tmp_path / ".preflight" / "monitor").iterdir())
    assert [folder.name for folder in folders] == ["ranks-1", "ranks-2"]
    for folder in folders:
        assert sorted(path.name[:10] for path in folder.glob("*.trace")) == ["rank-00000", "rank-00001"]
    assert (tmp_path / "verdict").read_text() == "GO 0 1\n"
    assert [path.name for path in tmp_path.glob("tb-*")] == ["tb-0"]
    assert any((tmp_path / "tb-0").iterdir())
    assert [path.name for path in tmp_path.glob("*.prom")] == ["figures-0.prom"]
    told = (tmp_path / "figures-0.prom").read_text().splitlines()
    assert "preflight_steps_total 16.0" in told  # of two trainings of eight steps, each counted once
    assert 'preflight_verdict{preflight_verdict="GO"} 1.0' in told
    assert ended.stderr.count("preflight monitor: GO") == 2
