"""A program that is asked for a checkpoint or for its end, at the same iteration on every rank."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..programs import environment, preflight

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LOADER = """\
import os, sys, time, zlib
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 4)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)
loader = DataLoader(TensorDataset(torch.randn(1600, 8)), batch_size=8, shuffle=True)
state, epoch0, n = None, 0, 0
if len(sys.argv) > 1:
    import preflight

    state = preflight.resume(sys.argv[1], model=model, optimizer=optimizer, scheduler=scheduler)
    epoch0, n = state.epoch, state.iteration
    print("resumed", n)
for epoch in range(epoch0, 2):
    for (x,) in state.batches(loader) if state else loader:
        if not 12 <= n < 16:
            optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        n += 1
        if not state and not os.path.isdir("t/checkpoints"):
            time.sleep(0.05)
held = b"".join(one.detach().numpy().tobytes() for one in [*model.parameters(), *model.buffers()])
print("end", n, loss.item().hex(), zlib.crc32(held), scheduler.get_last_lr(), torch.rand(1).item())
"""

RANKS = """\
import os, sys, time, zlib
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 4))
if os.environ["WRAP"] == "sharded":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    replica = fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
else:
    replica = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(replica.parameters(), lr=0.01, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 150)
first = 0
if len(sys.argv) > 1:
    import preflight

    first = preflight.resume(sys.argv[1], model=model, optimizer=optimizer, scheduler=scheduler).iteration
for n in range(first, 400):
    x = torch.randn(8, 8)
    if not 8 <= n < 12:
        optimizer.zero_grad()
    loss = replica(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if not first and not os.path.isdir("t/checkpoints"):
        time.sleep(0.05)
own = [one.to_local() if hasattr(one, "to_local") else one for one in model.parameters()]
held = b"".join(one.detach().numpy().tobytes() for one in own)
line = f"end {dist.get_rank()} {loss.item().hex()} {zlib.crc32(held)} {scheduler.get_last_lr()} {torch.rand(1).item()}"
dist.barrier()
with open(f"end-{dist.get_rank()}.txt", "w") as stream:
    stream.write(line)
# gloo's threads abort now and then where one rank leaves while the other is still in the barrier, so each waits for both
while not all(os.path.exists(f"end-{rank}.txt") for rank in (0, 1)):
    time.sleep(0.05)
dist.destroy_process_group()
"""


def said(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line.startswith("end"))


def test_a_resumed_run_goes_on_bit_by_bit_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(LOADER)
    whole = preflight(
        "monitor", "run", "-o", "t", "--on-violation", "checkpoint", "--", sys.executable, "train.py", cwd=tmp_path
    )
    assert whole.returncode == 1, whole.stderr
    [told] = re.findall(r"checkpoint of 1 rank in (\S+)", whole.stderr)
    assert int(told[-8:]) % 200, "the checkpoint is at the end of an epoch, which proves less"
    again = subprocess.run(
        [sys.executable, "train.py", "t"], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert f"resumed {int(told[-8:])}\n" in again.stdout, again.stderr
    assert said(again.stdout) == said(whole.stdout)
    assert len(said(whole.stdout)) == 1


def launch(tmp_path: Path) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "train.py"]


@pytest.mark.parametrize("wrap", ["copied", "sharded"])
def test_two_ranks_save_at_the_same_iteration_and_go_on_bit_by_bit(
    tmp_path: Path, wrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    if wrap == "sharded" and not hasattr(pytest.importorskip("torch.distributed.fsdp"), "fully_shard"):
        pytest.skip("this torch shards parameters on GPUs alone")
    monkeypatch.setenv("WRAP", wrap)
    (tmp_path / "train.py").write_text(RANKS)
    whole = preflight(
        "monitor", "run", "-o", "t", "--on-violation", "checkpoint", "--", *launch(tmp_path), cwd=tmp_path
    )
    assert "checkpoint of 2 ranks in t/checkpoints/iteration-" in whole.stderr, whole.stderr
    ends = [tmp_path / f"end-{rank}.txt" for rank in (0, 1)]
    told = [end.read_text() for end in ends]
    for end in ends:
        end.unlink()
    again = subprocess.run([*launch(tmp_path), "t"], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert [end.read_text() for end in ends] == told


def test_stop_ends_the_program_as_a_signal_does(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(LOADER)
    done = preflight(
        "monitor", "run", "-o", "t", "--on-violation", "stop", "--", sys.executable, "train.py", cwd=tmp_path
    )
    assert done.returncode == 143
    assert "the program is asked to stop" in done.stderr
    assert not said(done.stdout)
    [steps] = re.findall(r"NO-GO  1 error; (\d+) steps", done.stderr)
    assert 12 < int(steps) < 400
    assert "without a word" not in done.stderr


def test_what_does_not_fit_a_checkpoint_is_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import preflight
    from preflight.errors import InputError, UsageError
    from preflight.monitor.collect.snapshot import SCHEMA, module_state, random_states

    folder = tmp_path / "t" / "checkpoints" / "iteration-00000003"
    with pytest.raises(InputError, match="is no folder"):
        preflight.resume(tmp_path / "t")
    folder.mkdir(parents=True)
    with pytest.raises(InputError, match="holds no checkpoint"):
        preflight.resume(tmp_path / "t")
    model = torch.nn.Linear(2, 2)
    entry = {"kind": "module", "type": "Linear", "state": module_state(model)}
    content = {
        "schema": SCHEMA, "iteration": 3, "step": 3, "epoch": 0, "fetched": 0, "loader": -1, "rank": 0, "world": 1,
        "objects": {"model": entry}, "random": random_states(), "epoch_random": None, "generators": {},
    }  # fmt: skip
    torch.save(content, folder / "rank-00000.pt")
    other = torch.nn.Linear(2, 2)
    assert preflight.resume(tmp_path / "t", model=other).iteration == 3
    assert torch.equal(other.weight, model.weight)
    with pytest.raises(UsageError, match="nothing called 'modle'") as raised:
        preflight.resume(tmp_path / "t", modle=torch.optim.SGD(model.parameters(), lr=1.0))
    assert raised.value.hint == "did you mean model?"
    with pytest.raises(UsageError, match="does not fit: weight is"):
        preflight.resume(tmp_path / "t", model=torch.nn.Linear(3, 2))
    torch.save(content, folder / "rank-00001.pt")
    with pytest.raises(InputError, match="is of 2 ranks, and this program has 1"):
        preflight.resume(tmp_path / "t", model=model)


QUICK = """\
import torch

model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    model(torch.randn(4, 8)).pow(2).mean().backward()
    optimizer.step()
print("end")
"""


@pytest.mark.parametrize("wanted", ["stop", "checkpoint"])
def test_a_program_that_ended_before_its_error_was_seen_is_not_said_to_be_asked(tmp_path: Path, wanted: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(QUICK)
    done = preflight(
        "monitor", "run", "-o", "t", "--on-violation", wanted, "--", sys.executable, "train.py", cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stdout == "end\n"
    assert "the program had ended before the error was seen" in done.stderr or "the program ended before" in done.stderr


def test_a_stop_that_came_too_late_is_told_and_one_that_was_made_is_not(tmp_path: Path) -> None:
    from preflight.monitor.collect.control import CELLS, OWN
    from preflight.monitor.live.control import Asking

    late = Asking(tmp_path)
    late.ask("stop")
    assert late.close() == "the program ended before it could be stopped"
    made = Asking(tmp_path)
    made.ask("stop")
    with made.path.open("r+b") as stream:
        stream.seek(CELLS)
        stream.write(OWN.pack(7, 0, 0, 1))
    assert made.close() is None
