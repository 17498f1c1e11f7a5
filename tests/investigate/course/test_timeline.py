"""What the timeline says: how often a line was seen, and at which step it began."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.judge import judge
from preflight.vocabulary.incident import Incident
from preflight.vocabulary.log import Reading

from ..readings import SIGNATURES, files, hit, steps


def _storm(kept: int, seen: int) -> Incident:
    hits = tuple(hit("oom.allocation", 0, 50 + line, 21.0 + line, times_seen=seen) for line in range(kept))
    reading = Reading(files=files(1), hits=hits, steps=steps(range(1), range(20)), world_size=1)
    return judge(reading, SIGNATURES)


def test_lines_of_which_each_bears_the_count_of_all_are_counted_once() -> None:
    assert [moment.count for moment in _storm(kept=7, seen=7).timeline] == [7]


def test_of_a_storm_the_lines_that_were_not_kept_are_counted_too() -> None:
    assert [moment.count for moment in _storm(kept=7, seen=900).timeline] == [900]


def test_the_headline_names_the_step_at_which_it_began(tmp_path: Path) -> None:
    from preflight.investigate.diagnose import diagnose

    log = tmp_path / "train.log"
    lines = [f"step {step} | loss {2 - step / 100 if step < 60 else float('nan'):.4f} | lr 1e-4" for step in range(100)]
    log.write_text("\n".join(lines) + "\n")
    incident = diagnose([str(log)]).incident
    assert incident is not None
    assert incident.headline.count("at step") == 1
    assert "at step 60" in incident.headline
    assert [moment.count for moment in incident.timeline if "is not a number" in moment.text] == [40]


def test_of_the_line_of_a_step_its_own_number_is_told_where_not_all_steps_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from preflight.investigate.course import thinning
    from preflight.investigate.diagnose import diagnose

    monkeypatch.setattr(thinning, "MOST", 40)
    log = tmp_path / "train.log"
    log.write_text(
        "".join(f"step {step} | loss {2 - step / 100 if step < 81 else float('nan'):.4f}\n" for step in range(130))
    )
    incident = diagnose([str(log)]).incident
    assert incident is not None
    assert incident.headline.endswith("at step 81")
