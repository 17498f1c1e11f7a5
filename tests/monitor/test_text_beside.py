"""What is read in a program's text while it runs is told where the run itself shows no error."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from .programs import NEVER_CLEARED, PLAIN, preflight

pytestmark = pytest.mark.torch

MAXIMISED = """
import torch
from torch import nn
torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
for _ in range(12):
    x = torch.randn(8, 6)
    mu, logvar = encoder(x).chunk(2, dim=1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    divergence = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    loss = nn.functional.mse_loss(decoder(z), x) - 0.1 * divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("done")
"""


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "train.py").write_text(text)
    done = preflight("monitor", "run", "-o", "trace", *options, "--", sys.executable, "train.py", cwd=folder)
    return done.returncode, done.stderr


def test_what_is_likely_by_the_text_alone_is_a_warning(tmp_path: Path) -> None:
    code, said = run(tmp_path, MAXIMISED)
    assert code == 0
    line = 1 + next(at for at, written in enumerate(MAXIMISED.splitlines()) if "divergence = " in written)
    assert f"preflight monitor: in the text, train.py:{line}:" in said
    assert "(divergence-maximised)" in said
    assert "GO  1 warning" in said
    assert "alarm" not in said


def test_what_is_certain_by_the_text_decides() -> None:
    from preflight.cli.parts.text_beside import TextBeside
    from preflight.vocabulary.finding import Finding, Location
    from preflight.vocabulary.report import SCHEMA, Report, Tool

    beside = TextBeside(())
    report = Report(schema=SCHEMA, command="monitor run", tool=Tool("preflight", "0"), verdict="GO")
    assert beside.added_to(report).verdict == "GO"
    at = Location(path="train.py", line=3, column=1)
    finding = Finding(rule="a", code="A001", severity="error", confidence="certain", message="wrong", location=at)
    beside.findings = (finding,)
    assert beside.added_to(report).verdict == "NO-GO"
    beside.findings = (msgspec.structs.replace(finding, severity="warning", confidence="likely"),)
    assert beside.added_to(report).verdict == "GO"


def test_nothing_is_read_where_that_is_not_wanted(tmp_path: Path) -> None:
    code, said = run(tmp_path, MAXIMISED, "--no-check")
    assert code == 0
    assert "in the text" not in said
    assert "preflight monitor: GO" in said


def test_what_the_run_shows_itself_is_not_told_of_the_text_again(tmp_path: Path) -> None:
    code, said = run(tmp_path, NEVER_CLEARED)
    assert code == 1
    assert said.count("preflight monitor: alarm") == 1
    assert "in the text" not in said
    assert "NO-GO  1 error" in said


@pytest.mark.parametrize("text", [PLAIN, "import this_is_not_there\n", "print('no training')\n"])
def test_a_text_without_an_error_changes_nothing(tmp_path: Path, text: str) -> None:
    code, said = run(tmp_path, text)
    assert "in the text" not in said
    assert code == ("this_is_not_there" in text)


def _said_beside(rule: str, severity: str, confidence: str) -> bool:
    from preflight.cli.parts.text_beside import _told
    from preflight.vocabulary.finding import Finding, Location

    at = Location(path="train.py", line=3, column=1)
    found = Finding(rule=rule, code="A001", severity="error", confidence="likely", message="wrong", location=at)
    return _told(msgspec.structs.replace(found, severity=severity, confidence=confidence))


def test_a_warning_is_told_beside_a_run_where_its_rule_is_meant_for_it() -> None:
    assert _said_beside("shuffled-loader-cycled", "warning", "likely")
    assert not _said_beside("shuffled-loader-cycled", "warning", "possible")
    assert not _said_beside("training-data-not-shuffled", "warning", "likely")
    assert not _said_beside("no-seed", "info", "certain")
    assert _said_beside("divergence-maximised", "error", "likely")
