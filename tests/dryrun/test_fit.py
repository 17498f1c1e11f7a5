"""What would make a script fit: which number is its batch, where the largest lies, and what is tried and told."""

from __future__ import annotations

import textwrap
from pathlib import Path

import msgspec
import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.dry_run import fit
from preflight.dryrun.fit.batches import Hold, Place, changed, holds
from preflight.dryrun.fit.rounds import Rounds
from preflight.dryrun.fit.search import Fit
from preflight.dryrun.launch import Job
from preflight.vocabulary.held import Full
from preflight.vocabulary.measured import Measured
from preflight.vocabulary.profile import Changed, Profile
from preflight.vocabulary.seen import InputSeen, LoaderSeen

MIB = 1 << 20
GPU = resolve_gpu("a100-80gb")


def _job(script: Path, capacity: int, *arguments: str) -> Job:
    context = GPU.context_bytes or 0
    return Job(
        script=str(script), root=str(script.parent), gpu=GPU, capacity_bytes=capacity + context, arguments=arguments
    )


def _profile(batch: int, peak: int, capacity: int, **more: object) -> Profile:
    full = Full("forward", 0, "", "train.py:1", "mm", 1, 1, 1) if peak > capacity else None
    given = InputSeen("Model", "train.py:9", ((batch, 128),))
    plain = Profile(outcome="ended", steps=3, peak_bytes=peak, reserved_bytes=peak, full=full, inputs=(given,))
    return msgspec.structs.replace(plain, **more)


def test_the_number_of_the_batch_is_found_where_it_stands(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import argparse\nheads = 12\nbatch_size = 12\nrows = dict(batch=12, width=12)\n", encoding="utf-8"
    )
    seen = _profile(12, MIB, MIB, loaders=(LoaderSeen(line="train.py:5", batch_size=12, trains=True),))
    found = holds(_job(script, MIB, "--batch-size", "12", "--heads", "12"), seen, None, None)
    assert [hold.how for hold in found] == ["argument", "constant", "loader", "rows"]
    assert found[0].argument == 1
    assert [(p.line, p.column) for p in found[1].places] == [(3, 14), (4, 19)]
    assert found[0].arguments(_job(script, MIB, "--batch-size", "12"), 7) == ("--batch-size", "7")
    joined = Hold(how="argument", before=12, argument=0)
    assert joined.arguments(_job(script, MIB, "train.batch=12"), 7) == ("train.batch=7",)
    # No loader trains the model, and no dimension is a multiple of 5: neither the loaders nor 5 are thought of.
    assert [h.how for h in holds(_job(script, MIB), _profile(12, 1, 1), 5, None)] == ["constant", "rows"]


def test_a_batch_that_only_seems_changed_is_not_taken_for_one() -> None:
    before = _profile(12, 1, 1)
    assert changed(before, _profile(24, 1, 1), 12, 24)
    assert changed(_profile(36, 1, 1), _profile(72, 1, 1), 12, 24)  # three parts of a sample in one tensor
    assert not changed(before, _profile(12, 1, 1), 12, 24)
    assert not changed(before, _profile(23, 1, 1), 12, 24)


class _Linear:
    """Runs whose memory is a line over the batch, with segments of 20 MiB."""

    def __init__(self, fixed: int, each: int, batch: int, capacity: int) -> None:
        self.fixed, self.each, self.batch, self.capacity = fixed, each, batch, capacity
        self.jobs: list[Job] = []

    def __call__(self, job: Job) -> Profile:
        self.jobs.append(job)
        batch, saved = self.batch, 0
        for change in job.changes:
            if change["name"] in ("constant", "rows"):
                batch = change["value"]
            if change["name"] == "recompute":
                saved = 30 * MIB
        peak = self.fixed + self.each * batch - saved
        names = tuple(Changed(name=change["name"], done={"done": 1}) for change in job.changes)
        segments = -(-peak // (20 * MIB)) * 20 * MIB
        return _profile(
            batch, peak, self.capacity if segments <= self.capacity else 0, changed=names, reserved_bytes=segments
        )


def _look(tmp_path: Path, run: _Linear, batch: int) -> Measured:
    script = tmp_path / "train.py"
    script.write_text(f"batch_size = {batch}\n", encoding="utf-8")
    job = _job(script, run.capacity)
    return Fit(Rounds(run, job, 60), run(job)).look(batch, Place(str(script), 1, 14))


def test_the_largest_batch_is_run_and_so_is_the_one_above_it(tmp_path: Path) -> None:
    run = _Linear(fixed=100 * MIB, each=7 * MIB, batch=64, capacity=400 * MIB)
    found = _look(tmp_path, run, 64)
    largest = found.largest_batch
    assert largest is not None
    assert (largest.batch, largest.next) == (42, 43)  # 100 + 42 x 7 = 394 MiB: 20 segments; 401 needs 21
    assert {42, 43} <= {point.batch for point in largest.points}
    assert len(largest.points) <= 6
    assert (largest.place, largest.how) == ("train.py:1", "constant")
    split = next(trial for trial in found.trials if trial.keys == ("accumulate 2",))
    assert (split.fits, split.batch, split.peak_bytes) == (True, 32, 324 * MIB)
    advice = fit.recommendations(found)
    assert advice[0].change.startswith("split the batch of 64 into 2 of 32")
    assert advice[1].change == "lower the batch (train.py:1) from 64 to 42"
    assert advice[1].effect == "measured by running again: peak 394.0 MiB of 400.0 MiB: fits; 43 does not".replace(
        "394.0", "394").replace("400.0", "400")  # fmt: skip


def test_a_script_that_puts_nothing_on_the_gpu_has_nothing_to_be_changed(tmp_path: Path) -> None:
    found = _look(tmp_path, _Linear(fixed=0, each=0, batch=64, capacity=400 * MIB), 64)
    assert found.peak_bytes == 0
    assert fit.recommendations(found) == []


def test_changes_are_put_together_where_none_suffices_alone(tmp_path: Path) -> None:
    # A single row needs 110 MiB of 100; with the blocks recomputed 80.
    found = _look(tmp_path, _Linear(fixed=100 * MIB, each=10 * MIB, batch=4, capacity=100 * MIB), 4)
    assert found.largest_batch is not None
    assert (found.largest_batch.batch, found.largest_batch.next) == (0, 1)
    fitting = [trial for trial in found.trials if trial.fits]
    assert [trial.keys for trial in fitting] == [("recompute", "accumulate 2")]
    assert "not even a batch of 1 fits" in fit.notes_of(found)


def test_what_the_time_did_not_suffice_for_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("batch_size = 8\n", encoding="utf-8")
    run = _Linear(fixed=MIB, each=MIB, batch=8, capacity=4 * MIB)
    job = _job(script, 4 * MIB)
    found = Fit(Rounds(run, job, 0), run(job)).look(8, None)
    assert found.trials == ()
    assert {"recompute", "bf16"} <= set(found.left_out)
    assert found.largest_batch is not None
    assert found.largest_batch.reason == "the time did not suffice"
    assert any("the time did not suffice for" in note for note in fit.notes_of(found))


SCRIPT = """
    import torch
    from torch import nn

    rows = 64

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(512, 2048), nn.Linear(2048, 512)

        def forward(self, x):
            return x + self.down(torch.relu(self.up(x)))

    model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        loss = model(torch.randn(rows, 64, 512, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_that_is_too_large_is_told_what_makes_it_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from preflight.dryrun.fit.search import measure
    from preflight.dryrun.server import Server

    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    with Server() as server:
        whole = server.run(_job(script, 1 << 40))
        job = _job(script, whole.reserved_bytes * 3 // 4)
        seen = server.run(job)
    assert seen.full is not None
    assert seen.peak_bytes == whole.peak_bytes
    found = measure(job, seen, 900)
    largest = found.largest_batch
    assert largest is not None
    assert largest.how == "rows"
    assert largest.batch is not None
    assert largest.next == largest.batch + 1
    by_key = {trial.keys: trial for trial in found.trials}
    saved = by_key["recompute",]
    assert saved.done == {"blocks of class Block in Sequential": 4}
    assert saved.fits
    assert saved.peak_bytes is not None
    assert saved.peak_bytes < 0.7 * seen.peak_bytes
    assert not by_key["chunked loss",].applied
    assert by_key["accumulate 2",].fits
