"""What makes a verdict."""

from __future__ import annotations

import pytest

from preflight.check.asked import Options
from preflight.check.selection import Selection
from preflight.check.session import check_script
from preflight.source.script import parse
from preflight.vocabulary.finding import Confidence, Finding, Location, Severity

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
