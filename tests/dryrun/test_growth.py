"""Memory that grows from step to step, in a training and in an evaluation."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.check.dry_run.growth import full_at, length_of, with_growth
from preflight.dryrun.launch import Job, dry_run
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.held import Growth
from preflight.vocabulary.memory import MemoryBreakdown, MemoryEstimate
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import Interval

GIB = 1 << 30


def _estimate(peak: int) -> MemoryEstimate:
    value = Interval(peak, peak, peak)
    return MemoryEstimate(
        peak_bytes=value,
        reserved_bytes=value,
        device_bytes=value,
        fits="yes",
        breakdown=MemoryBreakdown(activations=peak),
    )


def _profile(growth: Growth) -> Profile:
    return Profile(outcome="stopped", growth=(growth,))


GROWTH = Growth(phase="training", bytes=GIB, steady=True, seen=6, allocated=4 * GIB, reserved=4 * GIB)


@pytest.mark.parametrize(
    ("length", "fits", "step", "peak"),
    [(None, "unknown", None, 4), (16, "yes", None, 14), (22, "yes", None, 20), (23, "no", 23, 4), (500, "no", 23, 4)],
)
def test_the_gpu_is_full_at_the_step_that_arithmetic_says(
    length: int | None, fits: str, step: int | None, peak: int
) -> None:
    assert full_at(GROWTH, 20 * GIB) == 6 + 16 + 1
    profile = _profile(GROWTH)
    memory = with_growth(_estimate(4 * GIB), profile, {"steps": Fact(length, None, "read")}, 20 * GIB)
    assert memory.fits == fits
    assert (memory.oom.step if memory.oom else None) == step
    assert memory.peak_bytes is not None
    assert memory.peak_bytes.mid == peak * GIB


def test_what_is_emptied_in_every_epoch_grows_through_one_epoch_only() -> None:
    import msgspec

    emptied = msgspec.structs.replace(GROWTH, length=10, emptied_at=("train.py:3",))
    assert length_of(emptied, {"steps": Fact(1000, None, "read")}) == 10
    bounded = msgspec.structs.replace(GROWTH, bounded=True)
    assert with_growth(_estimate(GIB), _profile(bounded), {}, 2 * GIB).fits == "yes"


@pytest.mark.torch
@pytest.mark.slow
def test_what_grows_is_found_with_who_keeps_it_and_caches_are_not(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        class Meter:
            def __init__(self):
                self.history = []

            def update(self, value):
                self.history.append(value)

        model = nn.Linear(256, 1024).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        meter, cache = Meter(), {}

        def train(epochs):
            for epoch in range(epochs):
                outputs = []
                for i in range(1000):
                    cache.setdefault(i % 2, torch.ones(64, 1024, device="cuda"))
                    out = model(torch.randn(64, 256, device="cuda"))
                    out.mean().backward()
                    if i % 2:
                        optimizer.step()
                        optimizer.zero_grad()
                        meter.update(out)
                        outputs.append(out.sum(0))

        @torch.no_grad()
        def evaluate():
            found = []
            for x, in DataLoader(TensorDataset(torch.randn(640, 256)), batch_size=64):
                found.append(model(x.cuda()))
            return torch.cat(found)

        train(5)
        evaluate()
    """
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    lines = script.read_text().splitlines()
    gpu = resolve_gpu("a100-80gb")
    seen = dry_run(Job(script=str(script), root=str(tmp_path), gpu=gpu, capacity_bytes=80 * GIB, seconds=120))
    assert seen.outcome == "ended", (seen.error, seen.message, seen.frames)
    assert seen.steps == 6  # three more than were asked for
    found = {growth.keeper: growth for growth in seen.growth}
    assert set(found) == {"meter.history", "outputs", "found"}

    def place(statement: str) -> str:
        return f"train.py:{1 + next(at for at, line in enumerate(lines) if statement in line)}"

    history, outputs, evaluated = found["meter.history"], found["outputs"], found["found"]
    # What is kept per step is the output, 64 x 1024 in fp32; every second of 1000 batches makes a step, in 5 epochs.
    assert (history.bytes, history.steady, history.length) == (64 * 1024 * 4, True, 5 * 500)
    assert history.holders[0].line == place("out = model(")
    assert history.kept_at == (place("history.append"),)
    assert (outputs.bytes, outputs.length, outputs.emptied_at) == (1024 * 4, 500, (place("outputs = []"),))
    assert (evaluated.phase, evaluated.bytes, evaluated.length) == ("evaluation", 64 * 1024 * 4, 10)
