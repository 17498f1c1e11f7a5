"""Logs that grow: one alarm when something fails and stays failed, none for what is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.investigate.follow import EVERY, HOLDS, follow
from preflight.source.logs import following
from preflight.vocabulary.report import Report

STEP = "2026-01-01 10:{:02d}:{:02d},000 INFO step {} loss {:.3f}\n"
FAILURE = (
    "Traceback (most recent call last):\n"
    '  File "/opt/job/train.py", line 9, in <module>\n'
    "    y = model(x)\n"
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\n"
)


class World:
    """A clock, and what happens as it goes on."""

    def __init__(self, happenings: dict[float, Callable[[], None]]) -> None:
        self.time = 1000.0
        self.happenings = dict(happenings)
        self.told: list[tuple[float, Report]] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        # Files are read by the real clock, which must go on too for what waits for a pause in them.
        import time

        time.sleep(0.08)
        self.time += max(seconds, EVERY)
        for at in sorted(self.happenings):
            if self.time - 1000.0 >= at:
                self.happenings.pop(at)()


def writes(path: Path, text: str) -> Callable[[], None]:
    def write() -> None:
        with path.open("a") as stream:
            stream.write(text)

    return write


def followed(folder: Path, happenings: dict[float, Callable[[], None]]) -> tuple[Report, World]:
    world = World(happenings)
    report = follow(
        [str(folder)], alarm=lambda report: world.told.append((world.time - 1000.0, report)), now=world.now,
        sleep=world.sleep, quiet=3.0,
    )  # fmt: skip
    return report, world


def lines(first: int, last: int) -> str:
    return "".join(STEP.format(step // 60, step % 60, step, 2.0 - step / 100) for step in range(first, last))


def test_a_failure_is_told_once(tmp_path: Path) -> None:
    logs = [tmp_path / f"rank_{rank}.log" for rank in range(4)]
    for log in logs:
        log.write_text(lines(0, 5))
    later = {1.0 + rank / 100: writes(log, lines(5, 9)) for rank, log in enumerate(logs)}
    report, world = followed(tmp_path, {**later, 2.0: writes(logs[2], FAILURE)})
    assert len(world.told) == 1
    assert world.told[0][1].incident is not None
    assert world.told[0][1].incident.culprit.ranks == (2,)
    assert world.told[0][0] - 2.0 <= HOLDS + 10 * EVERY
    assert report.verdict == "NO-GO"


def test_what_is_mended_at_once_is_not_told(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(lines(0, 5))
    end = "2026-01-01 10:20:00,000 INFO Training finished\n"
    report, world = followed(tmp_path, {1.0: writes(log, FAILURE + lines(5, 9)), 2.0: writes(log, lines(9, 12) + end)})
    assert world.told == []
    assert report.incident is not None
    assert (report.verdict, report.incident.state) == ("GO", "ended")


def test_the_last_report_rests_on_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_STEPS", 16)
    monkeypatch.setattr(following, "_FEWEST", 16)
    log = tmp_path / "train.log"
    log.write_text(lines(0, 400))
    report, world = followed(tmp_path, {1.0: writes(log, lines(400, 700) + FAILURE)})
    assert world.told[0][1].incident != report.incident
    whole = diagnose(str(tmp_path))
    assert report.incident == whole.incident
    assert report.notes == whole.notes


def test_a_report_that_rests_on_a_sample_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_STEPS", 16)
    monkeypatch.setattr(following, "_FEWEST", 16)
    log = tmp_path / "train.log"
    log.write_text(lines(0, 400))
    report, _ = followed(tmp_path, {1.0: writes(log, FAILURE), 2.5: log.unlink})
    assert any("sample" in note for note in report.notes)


def test_an_interrupt_has_the_files_looked_at_once_more(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(STEP.format(0, n, n, 2.0) for n in range(1, 4)))

    def interrupt() -> None:
        writes(path, FAILURE)()
        raise KeyboardInterrupt

    report, _ = followed(tmp_path, {2.0: interrupt})
    assert report.verdict == "NO-GO"
    assert report.incident is not None
    assert report.incident.category == "usercode"
