"""What a dry run can be looked at with: PyTorch's memory visualiser, and a trace viewer."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path

import pytest

from preflight.check.asked import Options
from preflight.check.session import check_text

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(10):
    loss = model(torch.randn(64, 1024, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_snapshot_and_a_trace_open_in_their_viewers(tmp_path: Path) -> None:
    script, pickled, trace = tmp_path / "train.py", tmp_path / "memory.pickle", tmp_path / "step.json"
    script.write_text(SCRIPT, encoding="utf-8")
    options = Options(
        gpu="a100-80gb", dry_run=True, time_limit=120, memory_snapshot=str(pickled), chrome_trace=str(trace)
    )
    report = check_text(script, options)
    assert report.profile is not None
    _look_at_memory(pickled, report.profile.peak_bytes)
    assert report.step is not None
    _look_at_step(trace, report.step["seconds"])


def _look_at_memory(path: Path, peak: int) -> None:
    from torch.cuda import _memory_viz

    snapshot = pickle.loads(path.read_bytes())
    assert "<html>" in _memory_viz.trace_plot(snapshot).lower() or "<!doctype" in _memory_viz.trace_plot(snapshot)
    assert len(_memory_viz.segment_plot(snapshot)) > 1000
    assert "cudaMalloc" in _memory_viz.trace(snapshot)
    assert "train.py" in _memory_viz.memory(snapshot, format_flamegraph=str)
    live, high = 0, 0
    for event in snapshot["device_traces"][0]:
        live += event["size"] * {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
        high = max(high, live)
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    assert live == sum(block["requested_size"] for block in blocks)
    # What was asked for is a little less than the blocks that were given.
    assert 0.98 * peak <= high <= peak
    assert all(
        sum(block["size"] for block in segment["blocks"]) == segment["total_size"] for segment in snapshot["segments"]
    )
    assert any(frame["name"].startswith("forward") for block in blocks for frame in block["frames"])


def _look_at_step(path: Path, seconds: dict[str, float]) -> None:
    events = [event for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"] if event["ph"] == "X"]
    assert {"forward", "backward", "optimizer"} <= {event["cat"] for event in events}
    assert max(event["ts"] + event["dur"] for event in events) <= seconds["mid"] * 1e6 * 1.0001
    starts = [(event["ts"], event["ts"] + event["dur"]) for event in events]
    assert all(first[1] <= second[0] + 1e-6 for first, second in itertools.pairwise(starts))
