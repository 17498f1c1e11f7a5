"""Many dry runs from one process that imported PyTorch once."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, dry_run
from preflight.dryrun.server import Server
from preflight.errors import InputError
from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
    import os
    import torch

    model = torch.nn.Linear(256, int(os.environ.get("WIDTH", "256"))).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(torch.randn(64, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    open("written.txt", "w").write("here")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def _job(folder: Path, text: str, seconds: float = 60, **environment: str) -> Job:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    gpu = resolve_gpu("a100-80gb")
    return Job(
        script=str(script),
        root=str(folder),
        gpu=gpu,
        capacity_bytes=80 << 30,
        seconds=seconds,
        environment=environment,
    )


def _same(first: Profile, second: Profile) -> bool:
    names = ("peak_bytes", "reserved_bytes", "categories", "holders", "timeline", "operators", "syncs")
    return all(getattr(first, name) == getattr(second, name) for name in names)


def test_a_fork_sees_what_a_process_of_its_own_sees_and_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    job = _job(tmp_path, SCRIPT)
    first, second = server.run(job), server.run(job)
    assert _same(first, second)
    assert _same(first, dry_run(job))
    wider = server.run(_job(tmp_path, SCRIPT, WIDTH="512"))
    assert wider.categories["parameter"] == 256 * 512 * 4 + 512 * 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


def test_jobs_run_side_by_side(server: Server, tmp_path: Path) -> None:
    found: dict[int, int] = {}

    def run(width: int) -> None:
        folder = tmp_path / str(width)
        folder.mkdir()
        found[width] = server.run(_job(folder, SCRIPT, WIDTH=str(width))).categories["parameter"]

    threads = [threading.Thread(target=run, args=(width,)) for width in (128, 256, 512)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {width: 256 * width * 4 + width * 4 for width in (128, 256, 512)}


def test_errors_and_limits_are_those_of_a_process_of_its_own(server: Server, tmp_path: Path) -> None:
    failed = server.run(_job(tmp_path, "raise LookupError('nothing here')"))
    assert (failed.outcome, failed.error, failed.message) == ("failed", "LookupError", "nothing here")
    late = server.run(_job(tmp_path, "import time\nwhile True:\n    time.sleep(0.01)", seconds=1))
    assert late.outcome == "time is up"
    assert server.run(_job(tmp_path, "import os\nos._exit(7)")).status == "7"
    with pytest.raises(InputError, match="ended by signal 9"):
        server.run(_job(tmp_path, "import os\nos.kill(os.getpid(), 9)"))
    assert server.run(_job(tmp_path, SCRIPT)).steps == 2
