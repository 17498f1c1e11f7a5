"""Without a device guard that Python may register, as before PyTorch 2.10, a dry run sees the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

from torch.utils import backend_registration  # noqa: E402

from preflight.dryrun import launch  # noqa: E402
from preflight.dryrun.virtual import private_guard  # noqa: E402

SCRIPT = """
import copy
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 16)).to(device)
frozen = copy.deepcopy(model).eval()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=True)
empty = nn.Linear(2, 2, device="meta")
assert empty.weight.is_meta and empty.weight.device == torch.device("meta")
assert not empty.to_empty(device="cuda").weight.is_meta
for _ in range(3):
    x = torch.randn(4, 3, 8, 8).to(device)
    assert x.to("cuda") is x and x.to(x) is x and x.cuda() is x
    assert x.device == torch.device("cuda", 0) and x.is_cuda and not x.is_meta and x.get_device() == 0
    x[:, 0] *= 2
    with torch.autocast("cuda", dtype=torch.float16):
        found = model(x)
        assert found.dtype == torch.float16
        loss = nn.functional.cross_entropy(found, frozen(x).argmax(1)) + torch.ones((), device=found.device)
    gradients = torch.autograd.grad(loss, model[0].weight, retain_graph=True)
    assert gradients[0].device == device or gradients[0].device.type == "cuda"
    loss.backward()
    cells = nn.LSTMCell(8, 4).to(device), nn.GRUCell(4, 4).to(device)
    hidden = cells[1](cells[0](x[:, 0].flatten(1)[:, :8])[0])
    hidden.sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""


def _run(folder: Path, guard: bool) -> dict[str, Any]:
    folder.mkdir()
    script, result = folder / "train.py", folder / "result.json"
    script.write_text(SCRIPT, encoding="utf-8")
    (folder / "tmp").mkdir()
    card = {"name": "GPU", "memory_bytes": 1 << 36, "capability": [9, 0], "multiprocessors": 132}
    job = {
        "script": str(script), "root": str(folder), "arguments": [], "steps": 3, "card": card, "capacity": None,
        "scratch": str(folder), "result": str(result),
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    forget = "" if guard else "del registration._setup_privateuseone_for_python_backend"
    code = (
        "import runpy, sys\n"
        "from torch.utils import backend_registration as registration\n"
        f"{forget}\n"
        f"sys.argv = ['child.py', {str(folder / 'job.json')!r}]\n"
        f"runpy.run_path({str(launch.CHILD)!r}, run_name='__main__')\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert result.exists(), ended.stderr
    seen: dict[str, Any] = json.loads(result.read_bytes())
    assert seen["outcome"] in ("ended", "stopped"), (seen.get("message"), seen.get("frames"), seen.get("deepest"))
    return seen


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this PyTorch registers no device guard of Python's",
)
def test_a_run_without_a_guard_sees_what_one_with_a_guard_sees(tmp_path: Path) -> None:
    with_guard, without = (_run(tmp_path / name, guard) for name, guard in (("with", True), ("without", False)))
    assert with_guard["operators"] > 100
    fused = ("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell")
    for seen in (with_guard, without):
        assert {kind["operator"] for kind in seen["work"]["kinds"]} >= set(fused)
    told = "operators peak_bytes reserved_bytes categories timeline steps backwards syncs".split()
    assert {name: without[name] for name in told} == {name: with_guard[name] for name in told}


def test_true_meta_tensors_have_no_index() -> None:
    assert torch.empty(2, device=private_guard.OWN).device != private_guard.OWN
