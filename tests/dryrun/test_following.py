"""Waiting for the process of a dry run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from preflight.dryrun.following import listening, wait


@pytest.mark.skipif(sys.platform == "win32", reason="sessions are those of POSIX")
def test_a_wait_that_is_broken_off_ends_the_process(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text("{}")
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.PIPE, start_new_session=True
    )

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with listening(interrupt), pytest.raises(KeyboardInterrupt):
        wait(process, 600, str(tmp_path))
    assert process.poll() is not None
