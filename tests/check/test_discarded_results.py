"""How grave it is that a result is thrown away: where nothing reads the old value again, it changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight import analyze

LOOP = """
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
total = 0.0
for x in batches:
    optimizer.zero_grad()
    BEFORE
    loss = net(x).mean()
    loss.backward()
    optimizer.step()
    total += loss.item()
    loss.detach()
    AFTER
"""


@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        ("pass", "pass", "warning"),
        ("pass", "history.append(loss)", "error"),
        ("history.append(loss)", "pass", "error"),
        ("loss = None", "pass", "warning"),
        ("pass", "for loss in others:\n        print(loss)", "warning"),
    ],
)
def test_what_nothing_reads_again_is_no_error(tmp_path: Path, before: str, after: str, severity: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(LOOP.replace("BEFORE", before).replace("AFTER", after))
    found = [finding for finding in analyze(path).findings if finding.rule == "result-discarded"]
    assert [finding.severity for finding in found] == [severity]


def test_what_no_gradient_goes_through_need_not_be_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    scores = "with torch.no_grad():\n        scores = net(x).sigmoid()\n    scores.detach()\n    print(scores)"
    path.write_text(LOOP.replace("BEFORE", "pass").replace("loss.detach()", "pass").replace("AFTER", scores))
    assert [f.severity for f in analyze(path).findings if f.rule == "result-discarded"] == ["warning"]
