"""The probe with real numbers: what it tries, and what it makes smaller."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job, Plan, dry_run
from preflight.dryrun.probe import plans, probe
from preflight.vocabulary.probe import Probe
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.seen import ParameterSeen
from preflight.vocabulary.work import Kind, Work


def _profile(parameters: int, flop: float, **more: object) -> Profile:
    return Profile(
        outcome="stopped",
        steps=3,
        parameters=(ParameterSeen(0, "weight", (parameters,), "torch.float32", True, 4 * parameters),),
        work=Work(kinds=(Kind("mm", "forward", flop=flop),), order=(0,)),
        **more,  # type: ignore[arg-type]
    )


def _job(script: Path) -> Job:
    return Job(
        script=str(script), root=str(script.parent), gpu=resolve_gpu("h100"), capacity_bytes=80 << 30, seconds=120
    )


def test_a_cheap_script_is_run_as_it_is() -> None:
    assert plans(_profile(1_000_000, 1e9))[0] == Plan()


def test_a_large_model_is_made_smaller_first() -> None:
    first = plans(_profile(8_000_000_000, 1e15))[0]
    assert first.samples is not None
    assert first.layers is not None
    assert first.width is not None


def test_what_cannot_be_probed_is_left_out_with_the_reason(tmp_path: Path) -> None:
    def never(job: Job) -> Profile:
        raise AssertionError("nothing is run")

    seen = probe(_job(tmp_path / "train.py"), Profile(outcome="ended", steps=0), never)
    assert (seen.outcome, seen.reason) == ("left out", "the dry run made no optimizer step")


def test_another_size_is_tried_where_the_first_fails(tmp_path: Path) -> None:
    tried: list[Plan | None] = []

    def fails_when_cut(job: Job) -> Profile:
        tried.append(job.plan)
        if job.plan is not None and job.plan.samples is not None:
            return Profile(outcome="failed", error="RuntimeError", message="shape '[8, 2]' is invalid")
        return Profile(outcome="stopped", steps=3, probe=Probe(steps=3))

    seen = probe(_job(tmp_path / "train.py"), _profile(1_000_000, 2e11), fails_when_cut)
    assert seen.outcome == "done"
    assert tried[0] != Plan()
    assert tried[-1] == Plan()


@pytest.mark.torch
@pytest.mark.slow
def test_a_model_is_built_with_fewer_layers_and_less_width(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            from dataclasses import dataclass
            import torch
            from torch import nn

            @dataclass
            class Config:
                vocab_size: int = 100
                n_layer: int = 12
                n_embd: int = 512
                n_head: int = 8

            class Model(nn.Module):
                def __init__(self, config):
                    super().__init__()
                    layer = lambda: nn.TransformerEncoderLayer(config.n_embd, config.n_head, 4 * config.n_embd, batch_first=True)
                    self.embed = nn.Embedding(config.vocab_size, config.n_embd)
                    self.layers = nn.ModuleList(layer() for _ in range(config.n_layer))
                    self.head = nn.Linear(config.n_embd, config.vocab_size)

                def forward(self, ids):
                    x = self.embed(ids)
                    for layer in self.layers:
                        x = layer(x)
                    return self.head(x)

            config = Config()
            model = Model(config).half().cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
            scaler = torch.amp.GradScaler("cuda")
            for _ in range(100):
                optimizer.zero_grad()
                for _ in range(8):
                    ids = torch.randint(0, config.vocab_size, (32, 64))
                    x, y = ids[:, :-1].cuda(), ids[:, 1:].cuda()
                    assert torch.cuda.get_device_name() and torch.device("cuda").type == "cuda"
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
                    scaler.scale(loss / 8).backward()
                scaler.step(optimizer)
                scaler.update()
            """
        ),
        encoding="utf-8",
    )
    job = _job(script)
    import msgspec

    plan = Plan(samples=4, tokens=16, layers=2, width=64)
    seen = dry_run(msgspec.structs.replace(job, plan=plan))
    assert seen.outcome in ("ended", "stopped"), (seen.error, seen.message)
    assert seen.probe is not None
    assert seen.probe.steps == 3
    changed = " ".join(seen.probe.changed)
    for told in (
        "n_layer 12 set to 2",
        "n_embd 512 set to 64",
        "32 samples cut to 4",
        "63 tokens cut to 16",
        "8 backward passes",
    ):
        assert told in changed
    (model,) = seen.probe.models
    # Two layers of width 64 with an inner width of 256, an embedding and a head of 100 tokens.
    layer = 4 * 64 * 64 + 4 * 64 + 2 * 64 * 256 + 256 + 64 + 4 * 64
    assert model.parameters == 2 * layer + 2 * 100 * 64 + 100
    (tokens,) = [t for t in model.tokens if t.moved is not None]
    assert tokens.shift == 1
    assert tokens.moved is not None
    assert tokens.moved > 0.01  # the model has no mask
