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


_RISES = [
    *(f"loss {2 + 0.01 * (step % 7):.3f}" for step in range(100)),
    *(f"loss {6 + 0.01 * (step % 7):.3f}" for step in range(100)),
]


@pytest.mark.parametrize(
    ("said", "category"),
    [
        ("INFO - hyperopt.tpe - TPE using {0}/{0} trials with best loss -0.473054", "none"),
        ("Trial {0} Complete [00h 01m 20s]", "none"),
        ("[I 2023-12-02 18:47:50,913] Trial {0} finished with value: 0.62 and parameters: {{'lookback': 25}}.", "none"),
        ("part {0} is done", "numerical"),
    ],
)
def test_a_loss_that_rises_from_trial_to_trial_of_a_search_does_not_diverge(
    said: str, category: str, tmp_path: Path
) -> None:
    lines = [line for number, value in enumerate(_RISES) for line in (f"step {number} {value}", said.format(number))]
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == category


@pytest.mark.parametrize(("beside", "category"), [("Mean Reward 153.1", "none"), ("Mean Length 153.1", "numerical")])
def test_a_loss_beside_a_reward_may_rise(beside: str, category: str, tmp_path: Path) -> None:
    lines = [f"step {number} - {beside} - {value}" for number, value in enumerate(_RISES)]
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == category
