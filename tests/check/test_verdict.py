"""What makes a verdict."""

from __future__ import annotations

import pytest

from preflight.check.asked import Options
from preflight.check.selection import Selection
from preflight.check.session import check_script
from preflight.source.script import parse
from preflight.vocabulary.finding import Confidence, Finding, Location, Severity
from preflight.vocabulary.profile import Profile

_SCRIPT = b"""
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("severity", "confidence", "fail_on", "verdict"),
    [
        ("error", "likely", "error", "NO-GO"),
        ("error", "possible", "warning", "GO"),
        ("warning", "certain", "error", "GO"),
        ("warning", "likely", "warning", "NO-GO"),
        ("warning", "possible", "warning", "GO"),
    ],
)
def test_a_doubt_decides_nothing_even_where_warnings_do(
    severity: Severity, confidence: Confidence, fail_on: str, verdict: str
) -> None:
    found = Finding("a-rule", "XXX001", severity, confidence, "said", Location("train.py", 1))
    selection = Selection(fail_on=fail_on)  # type: ignore[arg-type]
    report = check_script(parse(_SCRIPT, "train.py"), Options(), lambda findings, missing: [found], selection.decides)
    assert report.verdict == verdict


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (
            Profile(
                outcome="failed", error="ModuleNotFoundError", message="No module named 'zyx'", hint="pip install zyx"
            ),
            "the script ended in the dry run with ModuleNotFoundError: No module named 'zyx' (pip install zyx)",
        ),
        (Profile(outcome="time is up"), "the time limit ended the dry run; --time-limit gives it longer"),
        (Profile(outcome="ended"), "nothing was put on the GPU in the dry run"),
        (Profile(outcome="exited", status="0"), "nothing was put on the GPU in the dry run"),
        (
            Profile(outcome="exited", status="2"),
            "the script left with status 2, as it does where its command line lacks arguments; they are given behind --",
        ),
        (Profile(outcome="exited", status="3"), "the script left with status 3"),
        (Profile(outcome="exited", status="no data\nat all"), "the script left: no data"),
    ],
)
def test_a_dry_run_that_saw_nothing_says_why_and_not_that_a_dry_run_would_tell(
    monkeypatch: pytest.MonkeyPatch, profile: Profile, said: str
) -> None:
    monkeypatch.setattr("preflight.check.dry_run.added.run", lambda *_: profile)
    script = _SCRIPT.replace(b"torch.nn.Linear(4, 2)", b"make()")
    plain = check_script(parse(script, "train.py"), Options(gpu="h100"))
    assert plain.memory is not None
    assert plain.memory.reason
    report = check_script(parse(script, "train.py"), Options(gpu="h100", dry_run=True))
    assert report.memory is not None
    assert report.memory.reason == said
    assert report.verdict == "UNKNOWN"
    assert f"whether the memory suffices cannot be said: {said}" in report.notes
