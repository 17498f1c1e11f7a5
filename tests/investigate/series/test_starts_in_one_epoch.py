"""A counter of steps that begins again in one and the same epoch is that of another training."""

from __future__ import annotations

from pathlib import Path

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.incident import Incident


def told(folder: Path, text: str) -> Incident:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident


def _epoch(rows: int, size: int, start: float, end: float, number: int) -> str:
    drop = (end / start) ** (1 / rows)
    noise = [1.0, 1.06, 0.93, 1.02, 0.97]
    return "".join(
        f"Train Epoch: {number} [{at * size}/{rows * size} ({100 * at // rows}%)]\tLoss: {start * drop**at * noise[at % 5]:.6f}\n"
        for at in range(rows)
    )


def test_the_same_epoch_begun_again_is_another_training(tmp_path: Path) -> None:
    starts = "".join(_epoch(120, 64, 2.3, 0.04, 1) + "accuracy 85 %\n" for _ in range(5))
    assert told(tmp_path, starts + _epoch(120, 64, 0.62, 0.55, 1)).category == "none"


def test_a_loss_that_rises_in_later_epochs_is_one_that_diverges(tmp_path: Path) -> None:
    epochs = "".join(_epoch(120, 64, 2.3 if at == 1 else 0.1, 0.08, at) for at in range(1, 5))
    lost = "".join(_epoch(120, 64, 2.4, 2.3, at) for at in range(5, 8))
    assert told(tmp_path, epochs + lost).category == "numerical"
