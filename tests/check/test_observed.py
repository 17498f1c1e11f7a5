"""What becomes of what a dry run saw: its exception, and findings beside those of reading."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from preflight.check.context import Context
from preflight.check.dry_run import settle
from preflight.check.dry_run.added import settled
from preflight.check.observed import probed
from preflight.check.observed.refused import Refused
from preflight.check.observed.run import Run
from preflight.check.rule import Rule, RunRule
from preflight.check.run_rules.correctness import loss_never_reduced
from preflight.check.run_rules.memory import growth_exceeds_device
from preflight.check.run_rules.numerics import autocast_misses_layers, fp16_weights_with_optimizer
from preflight.source.reading import read
from preflight.source.script import read_script
from preflight.vocabulary.finding import Finding, Fix, Location
from preflight.vocabulary.held import Growth
from preflight.vocabulary.memory import MemoryEstimate, Oom
from preflight.vocabulary.probe import Probe
from preflight.vocabulary.profile import Frame, Profile
from preflight.vocabulary.seen import Observation, OptimizerSeen, ParameterSeen, PrecisionSeen

SCRIPT = """\
import torch
from lib import narrow
def guard(x):
    if x.dim() == 2: raise ValueError("the shape of x is wrong")
    assert x.size(0), "the shape of x is wrong"
    return narrow(x)
guard(torch.randn(2, 8))
"""


def _run(folder: Path, line: int, message: str, name: str = "train.py", script: Path | None = None) -> Run:
    (folder / "train.py").write_text(SCRIPT)
    (folder / "lib.py").write_text("def narrow(x):\n    return x @ x\n")
    seen = Observation("raised", 1, f"{name}:{line}", "", "forward", 0)
    frames = (Frame(str(folder / name), line, "guard", ""),)
    profile = Profile(outcome="failed", error="RuntimeError", message=message, frames=frames, observations=(seen,))
    return Run(profile, Context(read(read_script(script or folder / "train.py")), {}))


@pytest.mark.parametrize("line", [4, 5])
def test_what_the_script_raises_itself_is_no_refusal_of_pytorch(tmp_path: Path, line: int) -> None:
    assert Refused.of(_run(tmp_path, line, "the shape of x is wrong")) is None


def test_what_an_operator_raises_is_a_refusal(tmp_path: Path) -> None:
    refused = Refused.of(_run(tmp_path, 6, "mat1 and mat2 shapes cannot be multiplied\nand more"))
    assert refused is not None
    assert refused.text == "mat1 and mat2 shapes cannot be multiplied"


@pytest.mark.parametrize("message", ["", " ", "\n\n"])
def test_a_message_may_say_nothing(tmp_path: Path, message: str) -> None:
    refused = Refused.of(_run(tmp_path, 6, message))
    assert refused is not None
    assert refused.text == ""


def _finding(message: str, line: int) -> Finding:
    return Finding("a-rule", "XXX001", "error", "likely", message, Location("train.py", line), fix=Fix(title="mend it"))


def test_what_reading_and_two_observations_say_of_a_line_is_one_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = Rule(name="a-rule", code="XXX001", severity="error")
    said = [_finding("in the run", 6), _finding("in the probe", 6), _finding("elsewhere", 7), _finding("again", 7)]
    loaded = RunRule(rule, lambda run: iter(said), "family", "module", settles=False)
    monkeypatch.setattr(settle, "load_run_rules", lambda: [loaded])
    found, dropped = settle.settle(_run(tmp_path, 6, "stopped"), [_finding("read", 6)])
    assert [(finding.message, finding.location.line) for finding in found] == [("read", 6), ("elsewhere", 7)]
    assert dropped == []


def test_an_exception_in_another_file_is_told_in_the_terms_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "load_run_rules", list)
    monkeypatch.chdir(tmp_path)
    run = _run(tmp_path, 2, "stopped", "lib.py", Path("train.py"))
    (found,), _ = settled(run.profile, run.context, [])
    assert found.location == Location("lib.py", 2)


def test_the_optimizer_whose_weights_the_scaler_refuses_is_named(tmp_path: Path) -> None:
    run = _run(tmp_path, 6, "Attempting to unscale FP16 gradients.")
    optimizers = (OptimizerSeen("SGD", "train.py:2", 1), OptimizerSeen("Adam", "train.py:3", 1))
    parameters = (
        ParameterSeen(0, "a", (8,), "float32", True, 32, optimizers=(0,)),
        ParameterSeen(0, "b", (8,), "float16", True, 16, optimizers=(1,)),
    )
    profile = msgspec.structs.replace(run.profile, made=optimizers, parameters=parameters)
    (found,) = fp16_weights_with_optimizer.observe(Run(profile, run.context))
    assert found.location.line == 3
    assert "Adam" in found.message
    assert [related.location.line for related in found.related] == [6]


def test_the_types_of_all_layers_that_autocast_misses_are_told(tmp_path: Path) -> None:
    rows = (
        PrecisionSeen("product", "body", "train.py:3", "float16", "on", 1, 500),
        PrecisionSeen("product", "head", "train.py:4", "float32", "", 1, 300),
        PrecisionSeen("product", "mix", "train.py:5", "float64", "on", 1, 200),
    )
    profile = Profile(outcome="ended", steps=4, precision=rows)
    (found,) = autocast_misses_layers.observe(Run(profile, _run(tmp_path, 6, "").context))
    assert found.message.startswith("50 % of the multiplications run in float32 and float64 while")
    assert ("multiplications in float32", 300) in [(one.what, one.value) for one in found.evidence]
    assert ("multiplications in float64", 200) in [(one.what, one.value) for one in found.evidence]


def test_other_lines_that_autocast_misses_are_told_once_each(tmp_path: Path) -> None:
    rows = (
        PrecisionSeen("product", "body", "train.py:3", "float16", "on", 1, 500),
        *(PrecisionSeen("product", f"block.{i}", "train.py:4", "float32", "", 1, 300 - i) for i in range(3)),
        *(PrecisionSeen("product", f"head.{i}", "train.py:5", "float32", "", 2, 20) for i in range(2)),
    )
    profile = Profile(outcome="ended", steps=4, precision=rows)
    (found,) = autocast_misses_layers.observe(Run(profile, _run(tmp_path, 6, "").context))
    assert found.location.line == 4
    assert [(one.location.line, one.message) for one in found.related] == [(5, "4 products in float32")]


@pytest.mark.parametrize(
    ("assumptions", "told"),
    [(("pictures such as 1.png are missing: black ones took their place",), True), (("weights were not read",), False)],
)
def test_a_probe_that_failed_on_data_that_stood_in_says_so(assumptions: tuple[str, ...], told: bool) -> None:
    probe = Probe(outcome="left out", reason="IndexError: Target 246 is out of bounds.", assumptions=assumptions)
    (note,) = probed.notes_of(Profile(outcome="ended", steps=4, probe=probe))
    assert note.startswith("no probe with real numbers: IndexError: Target 246 is out of bounds.")
    assert note.endswith("what stood in for its own data") is told


def test_a_loss_of_several_numbers_stops_the_step_that_it_comes_in(tmp_path: Path) -> None:
    run = _run(tmp_path, 6, "grad can be implicitly created only for scalar outputs")
    (found,) = loss_never_reduced.observe(Run(msgspec.structs.replace(run.profile, steps=3), run.context))
    assert found.message.endswith("step 4 stops here")


@pytest.mark.parametrize(
    ("arithmetic", "line", "said"),
    [
        ("round 90 of 100 of the loop at train.py:5: 9 MiB / 1 MiB kept in every round", 5, "with every round"),
        ("9 GiB / 1 GiB kept in every step", 4, "with every step"),
    ],
)
def test_a_full_gpu_is_told_of_what_fills_it_where_more_grows(
    tmp_path: Path, arithmetic: str, line: int, said: str
) -> None:
    training = Growth(phase="training", bytes=1 << 30, steady=True, seen=6, loop="train.py:4")
    rounds = Growth(phase="evaluation", bytes=1 << 20, steady=True, seen=6, loop="train.py:5")
    memory = MemoryEstimate(fits="no", oom=Oom(phase="growth", step=90, arithmetic=arithmetic))
    reading = _run(tmp_path, 6, "").context.reading
    run = Run(Profile(outcome="ended", growth=(training, rounds)), Context(reading, {}, memory=memory))
    (found,) = growth_exceeds_device.observe(run)
    assert found.location.line == line
    assert said in found.message
