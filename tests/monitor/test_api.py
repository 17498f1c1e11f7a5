"""The monitor from Python: a part of a process that is recorded and watched, and everything as it was afterwards."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

import preflight
from preflight.errors import InputError, TraceError, UsageError
from preflight.monitor.library_of import general
from preflight.vocabulary.invariant import encoded

from .conftest import Recorded

pytestmark = pytest.mark.torch


def train(steps: int, clears: bool) -> float:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        if clears:
            optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def test_a_part_of_a_process_is_watched_and_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    before = {name: getattr(torch.nn.Module, name) for name in ("zero_grad", "load_state_dict", "train")}
    alone = train(12, clears=False)
    step, threads = torch.optim.SGD.step, threading.active_count()  # torch itself wraps it at its first use
    with preflight.monitoring("trace") as run:
        assert train(12, clears=False) == alone
        assert run.report is None
    assert run.report is not None
    assert run.report.verdict == "NO-GO"
    assert "gradients-cleared" in {one.relation for one in run.violations}
    assert capfd.readouterr().err.count("preflight monitor: alarm 1") == 1, "the watching process tells of it"
    assert all(getattr(torch.nn.Module, name) is value for name, value in before.items())
    assert torch.optim.SGD.step is step
    assert threading.active_count() == threads
    assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("preflight")]
    with preflight.monitoring("good", watch=False) as again:
        train(12, clears=True)
    assert again.report is not None
    assert again.report.verdict == "GO"


def test_what_is_raised_inside_gets_out_and_what_was_recorded_is_judged(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run = None

    def fail() -> None:
        nonlocal run
        with preflight.monitoring(tmp_path / "t", watch=False) as run:
            train(6, clears=False)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert run is not None
    assert run.report is not None
    assert run.report.verdict == "NO-GO"
    with pytest.raises(UsageError, match="holds a trace already"), preflight.monitoring(tmp_path / "t"):
        pass


def test_a_trace_is_checked(broken_run: Recorded, healthy_run: Recorded, tmp_path: Path) -> None:
    assert preflight.check_trace(healthy_run.trace).verdict == "GO"
    both = preflight.check_trace(healthy_run.trace, broken_run.trace)
    assert both.verdict == "NO-GO"
    assert [one.verdict for one in both.scripts] == ["GO", "NO-GO"]
    with pytest.raises(TraceError, match="holds no trace"):
        preflight.check_trace(tmp_path)


def test_one_file_of_invariants_needs_no_list(broken_run: Recorded, tmp_path: Path) -> None:
    file = tmp_path / "held.jsonl"
    file.write_bytes(encoded([general("loss-finite")]))
    alone = preflight.check_trace(broken_run.trace, invariants=str(file))
    assert alone.watched is not None
    assert alone.watched.in_force == 1
    assert preflight.check_trace(broken_run.trace, invariants=[file]).watched == alone.watched
    with (
        pytest.raises(InputError, match=r"nowhere\.jsonl"),
        preflight.monitoring(tmp_path / "t", invariants="nowhere.jsonl"),
    ):
        pass
