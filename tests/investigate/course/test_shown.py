"""What the steps show, with what lines beside them tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.investigate.judge import judge
from preflight.source.logs import read_logs

OVERFLOW = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {}"


def kinds(tmp_path: Path, lines: list[str]) -> list[str]:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    return [one.kind for one in judge(read_logs([path])).series]


def falls(count: int, apart: int) -> list[str]:
    """A run that skips a step for its scale again and again, with so many steps between."""
    lines, step = [], 0
    for number in range(count):
        lines.append(OVERFLOW.format(2 ** (16 - number), 2 ** (15 - number)))
        for _ in range(apart):
            step += 1
            lines.append(f"step {step} loss {2 + 0.01 * (step % 7):.3f}")
    return lines


def test_lines_of_skipped_steps_tell_the_loss_scale(tmp_path: Path) -> None:
    assert kinds(tmp_path, falls(12, 6)) == ["scale-collapse"]


def test_the_search_for_the_first_scale_is_no_collapse(tmp_path: Path) -> None:
    steps = [f"step {step} loss {2 + 0.01 * (step % 7):.3f}" for step in range(100, 200)]
    assert kinds(tmp_path, [*falls(8, 1), *steps]) == []
    assert kinds(tmp_path, [*falls(8, 1), *steps[:6]]) == []


@pytest.mark.parametrize(("level", "category"), [(10.7, "none"), (14.0, "numerical")])
def test_a_loss_that_rises_a_little_is_told_and_no_failure(level: float, category: str, tmp_path: Path) -> None:
    import random

    noise = random.Random(1)
    levels = [27 - 17 * min(1.0, step / 20) if step < 230 else level for step in range(300)]
    lines = (f"step {step} loss {value + noise.gauss(0, 0.1):.4f}\n" for step, value in enumerate(levels))
    (tmp_path / "run.log").write_text("".join(lines))
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == category
    assert any(one.kind == "divergence" for one in incident.series)
