"""Steps that mixed precision leaves out one after the other, slower steps without a reason, and steps without numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.vocabulary.report import Report


def told(folder: Path, lines: list[str]) -> Report:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose([str(path)])


def skipped(second: int, scale: float = 128.0) -> str:
    return (
        f"[2024-05-01 10:{second // 60:02d}:{second % 60:02d},123] [INFO] [deepspeed] fp16 dynamic loss scale overflow! "
        f"Skipping step. Attempted loss scale: {scale}, reducing to {scale / 2}"
    )


def made(number: int) -> str:
    return f"{{'loss': {3 - 0.01 * number:.4f}, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': {number / 100:.2f}}}"


def counted(step: int, skips: int) -> str:
    return f"[INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped={skips}, lr=[0.0], mom=[(0.9, 0.999)]"


@pytest.mark.parametrize("numbered", [False, True])
def test_skipping_without_end_is_a_failure(tmp_path: Path, numbered: bool) -> None:
    lines = [line for i in range(60) for line in ([skipped(i), counted(i + 1, i + 1)] if numbered else [skipped(i)])]
    report = told(tmp_path, lines)
    assert (report.verdict, report.incident and report.incident.category) == ("NO-GO", "numerical")
    assert report.incident is not None
    assert report.incident.signature == "series.scale-collapse"


def test_the_search_for_a_first_scale_is_none(tmp_path: Path) -> None:
    scales = [65536.0 / 2**i for i in range(12)]
    lines = [*(skipped(i, scale) for i, scale in enumerate(scales)), *(made(i) for i in range(40))]
    assert told(tmp_path, lines).verdict == "GO"


def test_eight_ranks_that_tell_of_the_same_steps_are_none(tmp_path: Path) -> None:
    """Each of five steps is told eight times, in one file and without ranks."""
    told_by_all = [
        f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {2.0 ** (15 - i)}"
        for i in range(5)
        for _ in range(8)
    ]
    assert told(tmp_path, [*told_by_all, *(made(i) for i in range(40))]).verdict == "GO"


def test_a_skip_now_and_then_is_none(tmp_path: Path) -> None:
    lines = [line for i in range(60) for line in (skipped(i), made(3 * i), made(3 * i + 1), made(3 * i + 2))]
    assert told(tmp_path, lines).verdict == "GO"


def test_a_failure_behind_steps_without_numbers_is_not_at_the_start(tmp_path: Path) -> None:
    ends = [
        "Traceback (most recent call last):",
        '  File "/home/user/train.py", line 10, in <module>',
        "    trainer.train()",
        "ValueError: too many values to unpack (expected 2)",
    ]
    onsets = [(0, "start"), (3, "warm-up"), (40, "running")]
    for count, onset in onsets:
        incident = told(tmp_path, [*(made(i) for i in range(count)), *ends]).incident
        assert incident is not None
        assert incident.onset == onset


def test_steps_that_stay_slower_without_a_reason_leave_it_open(tmp_path: Path) -> None:
    """Neither healthy nor a failure: nothing tells whether it is other work or a fault. What is over is healthy."""
    seconds = [0.500 + 0.002 * (i % 5) for i in range(80)]

    def lines(slower: range) -> list[str]:
        return [
            f"step {i + 1}/80 loss {3 - 0.01 * i:.3f} step_time {one * (1.5 if i in slower else 1.0):.3f}s"
            for i, one in enumerate(seconds)
        ]

    lasting, over = told(tmp_path, lines(range(50, 80))), told(tmp_path, lines(range(30, 50)))
    assert lasting.incident is not None
    assert over.incident is not None
    assert (lasting.verdict, lasting.incident.state, lasting.incident.category) == ("UNKNOWN", "slow", "none")
    assert lasting.incident.reason
    assert over.verdict == "GO"
