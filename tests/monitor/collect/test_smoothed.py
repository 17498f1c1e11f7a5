"""Targets that were smoothed before, and such as only look like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from preflight.monitor.collect import smoothed

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class _Recorder:
    torch = torch

    def __init__(self) -> None:
        self.told: list[float] = []

    def head(self) -> tuple[int, ...]:
        return ()

    def later(self, pending: Any, rows: Callable[[list[Any]], list[tuple[str, tuple[Any, ...]]]]) -> None:
        self.told += [row[1][-1] for row in rows(pending.values(wait=True) or [])]


@pytest.mark.parametrize(("least", "share"), [(0.0, 0.0), (1e-6, 0.0), (0.01, 1.0)])
def test_a_guard_against_nought_is_no_smoothing(least: float, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothed, "readable", lambda recorder, target: True)
    recorder = _Recorder()
    target = torch.eye(10).clamp(min=least)
    smoothed.SmoothedLabels(recorder)._look((target, target), {"label_smoothing": 0.1})  # type: ignore[arg-type]
    assert recorder.told == [share]
