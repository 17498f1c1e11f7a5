"""What the recorder tells of loaders that give windows of a series."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


def told(windows: Any, targets: Any, shuffle: bool = False) -> list[tuple[str, float]]:
    data = torch.utils.data.TensorDataset(windows, targets)
    with recorded() as kept:
        for _ in torch.utils.data.DataLoader(data, batch_size=16, shuffle=shuffle):
            break
    rows = [row for row in kept.table("scalar") if row["name"] == "windows.known"]
    return [(row["object"].partition("#")[2], row["value"]) for row in rows]


SERIES = torch.sin(torch.arange(90) / 5.0) + torch.arange(90) / 30
CUT = SERIES.unfold(0, 9, 1).clone()


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_target_that_stands_in_its_window_is_told(shuffle: bool) -> None:
    assert told(CUT[:, 1:], CUT[:, 8], shuffle) == [("8 of 8", 1.0)]
    assert told(CUT[:, :8], CUT[:, 8], shuffle) == [("", 0.0)]


def test_columns_and_lines() -> None:
    both = torch.stack([CUT, CUT.flip(0)], 2)
    assert told(both[:, 1:], CUT[:, 8:]) == [("8 of 8", 1.0)]
    assert told(both[:, 1:], both[:, 8]) == [("8 of 8", 1.0)]
    assert told(both[:, :8], both[:, 8]) == [("", 0.0)]


def test_what_is_to_be_remembered_or_rebuilt_is_left_alone() -> None:
    rows = torch.randn(40, 8)
    assert told(rows, rows[:, 7]) == []
    bits = torch.randint(0, 2, (40, 8)).float()
    assert told(bits, bits[:, 7]) == []
    assert told(CUT, CUT) == []
    assert told(torch.ones(40, 8), torch.ones(40)) == [("", 0.0)]


def test_a_middle_that_is_to_be_filled_in_is_left_alone() -> None:
    assert told(CUT, CUT[:, 4]) == []
    assert told(CUT, CUT[:, 5]) == [("6 of 9", 1.0)]
