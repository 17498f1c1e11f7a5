"""The examples of the notice about scripts that raise, run on the virtual GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.notices.script_raises import BAD, GOOD
from preflight.check.session import check_text

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def _codes(tmp_path: Path, text: str) -> set[str]:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    report = check_text(script, Options(gpu="a100-80gb", dry_run=True, time_limit=120))
    assert report.profile is not None
    return {finding.code for finding in report.findings if finding.decides}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_example_raises(tmp_path: Path, text: str) -> None:
    assert "RUN001" in _codes(tmp_path, text)


@pytest.mark.parametrize("text", GOOD)
def test_a_good_example_runs(tmp_path: Path, text: str) -> None:
    assert "RUN001" not in _codes(tmp_path, text)
