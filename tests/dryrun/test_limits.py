"""A run ends at its limits with what was learned, whatever the script does, and touches nothing."""

from __future__ import annotations

import textwrap
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.dry_run.end import early_end
from preflight.dryrun.following import listening, memory_limit
from preflight.dryrun.launch import Job, dry_run
from preflight.vocabulary.profile import Profile

HEAD = """
import ctypes, os, threading, time, torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    model(torch.randn(4, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def _run(folder: Path, text: str, seconds: float = 120) -> Profile:
    script = folder / "train.py"
    script.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    gpu = resolve_gpu("h100")
    return dry_run(Job(script=str(script), root=str(folder), gpu=gpu, capacity_bytes=gpu.memory_bytes, seconds=seconds))


def test_the_host_says_how_much_memory_a_run_may_take() -> None:
    limit = memory_limit()
    assert limit is None or limit > 1 << 20


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_that_catches_the_end_is_ended(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    told: list[dict[str, Any]] = []
    with listening(told.append):
        slow = "import time\nwhile True:\n    try:\n        step()\n        time.sleep(0.3)\n    except BaseException:\n        pass\n"
        seen = _run(tmp_path, slow)
    assert (seen.outcome, seen.steps) == ("stopped", 9)
    assert seen.stuck.startswith("train.py:")
    assert seen.peak_bytes > 0
    assert {"phase", "step", "operators", "seconds"} == set(told[-1])


@pytest.mark.torch
@pytest.mark.slow
def test_the_time_limit_ends_a_script_that_takes_no_notice(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    seen = _run(
        tmp_path, "step()\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass\n", 40
    )
    assert (seen.outcome, seen.steps) == ("time is up", 1)
    assert seen.stuck.startswith("train.py:")


@pytest.mark.torch
@pytest.mark.slow
def test_threads_train_native_code_writes_nothing_and_leaving_at_once_gives_an_answer(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    target = tmp_path / "native.txt"
    text = f"""
        try:
            os.fork()
        except PermissionError as error:
            assert "starts no other program" in str(error)
        worker = threading.Thread(target=lambda: [step(), step()])
        worker.start()
        worker.join()
        ctypes.CDLL(None).open({str(target).encode()!r}, os.O_CREAT | os.O_WRONLY, 0o600)
        os._exit(3)
    """
    seen = _run(tmp_path, text)
    assert (seen.outcome, seen.status, seen.steps) == ("exited", "3", 2)
    # A container may not let a process have namespaces of its own.
    assert target.exists() == ("files" not in seen.closed)


@pytest.mark.torch
@pytest.mark.slow
def test_a_loader_without_data_ends_a_script_that_waits_for_its_steps(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    loop = """
    from torch.utils.data import DataLoader
    done, {known} = 0, DataLoader([torch.zeros(64)] * 8)
    loader = DataLoader([])
    while done < {steps}:
        for x in {loader}:
            step()
            done += 1
        for x in loader:
            step()
    """
    seen = _run(tmp_path, loop.format(known="train", loader="loader", steps=10))
    assert (seen.outcome, seen.stuck, seen.steps) == ("no data", "train.py:17", 0)
    assert early_end(seen) == (
        "the loader at train.py:17 gave no batch, again and again: its data set found nothing to read; "
        "run it where the data is, or name the data behind --"
    )
    seen = _run(tmp_path, loop.format(known="train", loader="train", steps=1000))
    assert seen.outcome != "no data", "an evaluation without data is between batches of the training"
    assert seen.steps > 0


def test_looking_where_a_script_is_keeps_none_of_its_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that is held while files are asked about would keep what its function had, and the peak would be too high."""
    pytest.importorskip("torch")
    from preflight.dryrun.virtual.guard.watchdog import Watchdog
    from preflight.dryrun.virtual.progress import Progress

    class Big:
        pass

    progress = Progress(str(tmp_path), 1)
    watchdog = Watchdog({"result": "", "scratch": ""}, progress, lambda: 0, dict)
    looked, left = threading.Event(), threading.Event()

    def owns(name: str) -> bool:
        looked.set()
        left.wait(10)
        return True

    monkeypatch.setattr(progress, "owns", owns)
    looking = threading.Thread(target=watchdog._place)

    def work() -> weakref.ref[Big]:
        big = Big()
        looking.start()
        looked.wait(10)
        return weakref.ref(big)

    kept = work()
    alive = kept() is not None
    left.set()
    looking.join()
    assert not alive
